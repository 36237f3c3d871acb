# Every target sets up what it needs: a fresh clone, Python 3.11 or newer and make are enough.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
READY_SLOW := $(VENV)/.ready-slow

.PHONY: demo test test-slow test-gpu lint hooks attack soak bench tables docs wheel clean help

demo: $(READY)  ## the main job: measure the shipped weights, train two small nets, write demo/report.html
	$(BIN)/fourierscale demo

test: lint  ## style, types, tests and every example in the documentation
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile

test-slow: $(READY_SLOW)  ## the tests that take minutes, with models of other libraries
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow --numprocesses 2

test-gpu: $(READY)  ## the tests that need a CUDA device
	$(BIN)/python -m pytest -m gpu

lint: $(READY)  ## style, types, and which package may import which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

hooks: $(READY)  ## run the checks of .pre-commit-config.yaml before every commit
	$(BIN)/pre-commit install

attack: $(READY)  ## random and damaged input for everything, on one core; tests/attack/README.md has the options
	OMP_NUM_THREADS=1 nice $(BIN)/python -m tests.attack $(ATTACK)

soak: $(READY)  ## 30 minutes of inference with changing sizes; memory has to stay flat
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.soak $(SOAK)

bench: $(READY)  ## speed, memory and error beside plain CNNs and other peers; docs/speed.md names further benchmarks
	$(BIN)/fourierscale bench $(BENCH)

tables: $(READY)  ## the tables of README.md and docs/ from the files in results/
	$(BIN)/fourierscale reproduce tables

docs: $(READY)  ## the documentation as a web site in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

wheel: $(READY)  ## sdist and wheel in dist/, checked, installed in an empty environment and used there
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	$(BIN)/python tests/wheel.py dist

help:  ## this list
	@awk -F ':.*  ## ' '/^[a-z-]+:.*  ## / { printf "%-10s %s\n", $$1, $$2 }' Makefile

clean:  ## remove the environment and everything that was built
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "fourierscale needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[dev]'
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true  # on all cores, pip would use one; some files are templates
	@touch $@

$(READY_SLOW): tests/requirements-slow.txt $(READY)
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --requirement tests/requirements-slow.txt
	@touch $@
