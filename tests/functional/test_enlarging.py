"""Fixed sizes for baselines: padding as torch does it, also where torch cannot, and ideal upscaling."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from fourierscale.functional import downscale
from fourierscale.functional.enlarging import Enlarging, enlarge_to


@pytest.mark.parametrize(("n", "size"), [(5, 5), (5, 8), (8, 11), (7, 12), (28, 28)])
@pytest.mark.parametrize(
    ("mode", "name"),
    [("zero", "constant"), ("reflect", "reflect"), ("replicate", "replicate"), ("circular", "circular")],
)
def test_padding_is_torchs_with_the_odd_pixel_right_and_bottom(mode: Enlarging, name: str, n: int, size: int) -> None:
    x = torch.rand(2, 3, n, n)
    before = (size - n) // 2
    after = size - n - before
    torch.testing.assert_close(enlarge_to(x, size, mode), F.pad(x, (before, after, before, after), mode=name))


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_wider_than_the_image_repeats(mode: Enlarging, n: int) -> None:
    x, size = torch.rand(1, 1, n, n), n + 13

    def walk(position: int) -> int:
        """Bring a position back into the image by whole steps."""
        while not 0 <= position < n:
            if mode == "circular":
                position += n if position < 0 else -n
            elif mode == "reflect" and n > 1:
                position = -position if position < 0 else 2 * (n - 1) - position
            else:
                position = 0 if position < 0 else n - 1
        return position

    index = torch.tensor([walk(i - 6) for i in range(size)])
    torch.testing.assert_close(enlarge_to(x, size, mode), x[..., index, :][..., index])


def test_upsampling_is_undone_by_ideal_downscaling() -> None:
    x = downscale(torch.rand(2, 1, 28, 28), 11)
    torch.testing.assert_close(downscale(enlarge_to(x, 28, "upsample"), 11), x)


def test_wrong_modes_and_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="'mirror'"):
        enlarge_to(torch.rand(1, 1, 4, 4), 8, "mirror")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="9 x 9 into 8 x 8"):
        enlarge_to(torch.rand(1, 1, 9, 9), 8, "zero")
