"""What is exported: plain operators with the values of the specification."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from fourierscale import functional as F
from fourierscale.kernels.conv import plain
from fourierscale.kernels.layout import channel_first, frequency_first

odd = st.integers(0, 5).map(lambda k: 2 * k + 1)


@given(odd, odd, st.integers(1, 3), st.integers(0, 99))
def test_mixing_is_the_convolution_of_the_specification(rows, columns, batch, seed):
    torch.manual_seed(seed)
    x = torch.randn(batch, 3, rows, columns, dtype=torch.float64)
    spectrum = torch.randn(4, 3, rows, columns, dtype=torch.float64)
    value = channel_first(plain.fourier_conv(frequency_first(x, 2), spectrum), x.shape[:-3])
    torch.testing.assert_close(value, F.fourier_conv(x, spectrum))
