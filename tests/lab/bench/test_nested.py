"""The benchmark of nested models measures the passes it names, and its transforms are those of the whole."""

from __future__ import annotations

import torch
from torch import nn

from fourierscale.lab.bench import Settings
from fourierscale.lab.bench.nested import CASES, NestedCase, Ready, measure_nested
from fourierscale.nn import NestedModel


def test_a_line_for_each_mode_with_times_and_memory():
    settings = Settings(torch.device("cpu"), quick=True, repeats=1)
    rows = [row for stem, row in measure_nested([], settings) if stem == "nested-model-cpu"]
    assert [row["mode"] for row in rows] == ["train", "inference"]
    for row in rows:
        assert row["passes"] == 1.25
        assert min(row[f"{part}_ms"] for part in ("top", "passes", "transforms", "nested")) > 0
        assert row["top_mib"] <= row["passes_mib"]
        assert row["nested_ratio"] > 0
    assert rows[0]["nested_mib"] > rows[1]["nested_mib"]


def test_a_model_with_ready_answers_leaves_the_transforms_alone():
    model = nn.Conv2d(3, 2, 3, padding=1)
    net = NestedModel(model, (12, 24)).eval()
    x, answers = torch.rand(1, 3, 24, 24), {}
    model.register_forward_hook(lambda module, given, y: answers.update({tuple(y.shape[2:]): y.detach()}))
    expected = net(x)
    net.model = Ready(answers)
    assert torch.equal(net(x), expected)


def test_the_cases_are_those_of_the_page():
    assert CASES["unet-1024-checkpoint"].checkpoint
    assert isinstance(CASES["resnet-stl10-small"], NestedCase)
    for case in CASES.values():
        assert case.model()(torch.rand(1, 3, 16, 16)).ndim == 4
