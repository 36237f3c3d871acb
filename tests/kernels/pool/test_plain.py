"""What is exported: plain operators with the values of the specification."""

import pytest
import torch

from fourierscale import functional as F
from fourierscale.kernels.layout import frequency_first
from fourierscale.kernels.pool import plain


@pytest.mark.parametrize("kind", ["max", "average"])
def test_pooling_of_the_head_is_that_of_the_specification(kind):
    x = torch.randn(2, 3, 9, 7, dtype=torch.float64)
    boxes = [(1, 1), (2, 2), (4, 3)]
    value = plain.level_pool(frequency_first(x, 2), boxes, 5, 2, kind)
    torch.testing.assert_close(value, F.level_pool(x, boxes, 5, 2, kind))
