from pathlib import Path

import hypothesis
import pytest
import torch

hypothesis.settings.register_profile("fourierscale", deadline=None, max_examples=30, derandomize=True)
hypothesis.settings.load_profile("fourierscale")


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder; the PATH holds nothing."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("FOURIERSCALE_DATA", str(folder))
    monkeypatch.setenv("PATH", str(tmp_path_factory.mktemp("bin")))
    return folder
