r"""The Fourier neural operator in two dimensions, as published: an operator on fields that is learned on one grid.

Li et al., Fourier Neural Operator for Parametric Partial Differential Equations (2021). A layer multiplies the lowest
frequencies by free complex matrices and adds a pointwise path,

.. math:: y = \sigma\big(\mathcal F^{-1}(R \cdot \mathcal F(x)) + W x\big),

with :math:`\sigma` = GELU but for the last layer. What GELU makes above the band of a grid comes back as an alias,
which differs from grid to grid: on another grid it is another operator.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn

from fourierscale.functional.transform import full_precision
from fourierscale.models.contract import ImageModel
from fourierscale.nn.checks import choice, positive

__all__ = ["FNO", "FNONorm"]

FNONorm: TypeAlias = Literal["none", "instance"]
"""What follows each sum of the two paths: nothing, as first published, or an instance norm, as is usual today."""


class _SpectralConv(nn.Module):
    """Free matrices on the frequencies ``|k_1| <= modes``, ``0 <= k_2 < modes``; real numbers, the last axis complex.

    Rows ``k_1 = 0 ... modes - 1`` and ``k_1 = -modes ... -1`` have weights of their own, as in the published code.
    """

    def __init__(self, channels: int, modes: int) -> None:
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.rand(2, channels, channels, modes, modes, 2) / channels**2)

    def forward(self, x: Tensor) -> Tensor:
        """Samples ``(B, C, n_1, n_2)`` to samples; of a small grid the frequencies that it has."""
        with full_precision(x):  # FFTs exist in single and double precision alone
            spectrum = torch.fft.rfft2(x.float() if x.dtype in (torch.bfloat16, torch.float16) else x)
            rows, columns = min(self.modes, x.shape[-2] // 2), min(self.modes, spectrum.shape[-1])
            weight = torch.view_as_complex(self.weight).to(spectrum.dtype)
            mixed = torch.zeros_like(spectrum)
            mixed[..., :rows, :columns] = _mix(spectrum[..., :rows, :columns], weight[0, ..., :rows, :columns])
            last = weight[1, ..., self.modes - rows :, :columns]
            mixed[..., x.shape[-2] - rows :, :columns] = _mix(spectrum[..., x.shape[-2] - rows :, :columns], last)
            y: Tensor = torch.fft.irfft2(mixed, s=x.shape[-2:])
            return y


def _mix(spectrum: Tensor, weight: Tensor) -> Tensor:
    """``(B, C, x, y)`` and ``(C, K, x, y)`` to ``(B, K, x, y)``, a product of matrices for each frequency."""
    return (spectrum.permute(2, 3, 0, 1) @ weight.permute(2, 3, 0, 1)).permute(2, 3, 0, 1)


class FNO(ImageModel):
    """A Fourier neural operator: fields ``(B, C, n_1, n_2)`` on any grid to fields on the same grid.

    Args:
        in_channels: Channels of the given field.
        out_channels: Channels of the answer.
        modes: Frequencies per axis that the layers mix.
        width: Channels inside.
        depth: Layers.
        norm: ``"none"`` or ``"instance"``.
        positions: Whether the two coordinates of each sample, from 0 to 1, are further channels of the input.
        hidden: Channels of the last pointwise layer but one.

    >>> FNO(modes=4, width=8, depth=2)(torch.randn(2, 1, 16, 16)).shape
    torch.Size([2, 1, 16, 16])
    """

    def __init__(
        self,
        in_channels: int = 1,
        out_channels: int = 1,
        modes: int = 12,
        width: int = 32,
        depth: int = 4,
        norm: FNONorm = "none",
        positions: bool = True,
        hidden: int = 128,
    ) -> None:
        super().__init__()
        choice(norm, get_args(FNONorm), "norm")
        self.positions = positions
        self.lift = nn.Conv2d(positive(in_channels, "in_channels") + 2 * positions, positive(width, "width"), 1)
        count = positive(depth, "depth")
        self.spectral = nn.ModuleList(_SpectralConv(width, positive(modes, "modes")) for _ in range(count))
        self.pointwise = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(count))
        self.norms = nn.ModuleList(
            nn.InstanceNorm2d(width, affine=True) if norm == "instance" else nn.Identity() for _ in range(count)
        )
        self.project = nn.Sequential(nn.Conv2d(width, hidden, 1), nn.GELU(), nn.Conv2d(hidden, out_channels, 1))

    def forward(self, x: Tensor) -> Tensor:
        """The answer on the grid of the input."""
        if self.positions:
            lines = [torch.arange(n, dtype=x.dtype, device=x.device) / n for n in x.shape[-2:]]
            grid = torch.stack(torch.meshgrid(*lines, indexing="ij"))
            x = torch.cat([x, grid.expand(len(x), -1, -1, -1)], 1)
        x = self.lift(x)
        last = len(self.spectral) - 1
        for number, (spectral, pointwise, norm) in enumerate(
            zip(self.spectral, self.pointwise, self.norms, strict=True)
        ):
            x = norm(spectral(x) + pointwise(x))
            if number < last:
                x = nn.functional.gelu(x)
        answer: Tensor = self.project(x)
        return answer
