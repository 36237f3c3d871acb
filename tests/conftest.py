import hypothesis
import pytest
import torch

hypothesis.settings.register_profile("fourierscale", deadline=None, max_examples=30, derandomize=True)
hypothesis.settings.load_profile("fourierscale")


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)
