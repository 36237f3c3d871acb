"""DISCO's basis: the fit minimises what it says, better than its authors' optimiser; the shipped bases are that fit."""

import sys

import pytest
import torch
from torch.nn import functional as F

from fourierscale.lab.baselines.parts import disco_fit as module
from fourierscale.lab.baselines.parts.disco_fit import (
    SHIPPED,
    basis_errors,
    basis_loss,
    disco_basis,
    fit_disco_basis,
    load_disco_basis,
)
from fourierscale.lab.baselines.parts.hermite import hermite_basis, hermite_functions

MNIST, STL10 = SHIPPED["disco-basis-mnist"], SHIPPED["disco-basis-stl10"]


def both_ways(basis, scales, i, j, images):
    """Convolve and then resize, resize and then convolve, circular, borders left out."""
    half, border = basis.shape[-1] // 2, basis.shape[-1] // 2 + 1

    def convolve(x, number):
        return F.conv2d(F.pad(x, [half] * 4, mode="circular"), basis[:, number, None])

    def resize(x):
        return F.interpolate(x, scale_factor=scales[i] / scales[j], mode="bicubic", align_corners=False)

    crop = (..., slice(border, -border), slice(border, -border))
    return resize(convolve(images, j))[crop], convolve(resize(images), i)[crop]


def test_the_loss_is_what_images_of_noise_show():
    basis = torch.randn(9, 3, 5, 5, dtype=torch.float64)
    images = torch.rand(12, 1, module.SIDE, module.SIDE, dtype=torch.float64)
    seen = 0.0
    errors = basis_errors(basis, STL10[2])
    for i, j in errors:
        one, other = both_ways(basis, STL10[2], i, j, images)
        seen += ((one - other).square().sum() / len(images)).sqrt().item()
        ratio = ((one - other).square().sum() / other.square().sum()).item()
        assert ratio == pytest.approx(errors[i, j], rel=0.02)
    assert seen == pytest.approx(basis_loss(basis, STL10[2]), rel=0.01)


@pytest.mark.parametrize("setting", [MNIST, STL10])
def test_whole_scales_are_taps_apart_and_exact(setting):
    size, effective_size, scales = setting
    basis = fit_disco_basis(*setting)
    first, last = basis[:, 0], basis[:, -1]
    border, middle = (size - effective_size) // 2, size // 2
    inner = first[:, border : size - border, border : size - border]
    torch.testing.assert_close(inner.flatten(1), torch.eye(effective_size**2, dtype=torch.float64))
    start = middle - 2 * (effective_size // 2)
    torch.testing.assert_close(last[:, start::2, start::2][:, :effective_size, :effective_size], inner)
    images = torch.rand(1, 1, 60, 60, dtype=torch.float64)
    one, other = both_ways(basis, scales, 0, len(scales) - 1, images)
    torch.testing.assert_close(one, other)


@pytest.mark.parametrize("setting", [MNIST, STL10])
def test_the_fit_is_a_minimum(setting):
    """The loss is convex, so no better neighbour means that there is nothing better anywhere."""
    *_, scales = setting
    basis = fit_disco_basis(*setting)
    loss = basis_loss(basis, scales)
    for number in range(1, len(scales) - 1):
        for size in (1e-4, 1e-2):
            step = torch.zeros_like(basis)
            step[:, number] = size * torch.randn_like(basis[:, number])
            assert basis_loss(basis + step, scales) > loss
            assert basis_loss(basis - step, scales) > loss


@pytest.mark.parametrize("setting", [MNIST, STL10])
def test_what_commutes_with_every_resizing_is_the_same_at_every_scale(setting):
    basis = fit_disco_basis(*setting)
    identity = basis[setting[1] ** 2 // 2]
    expected = torch.zeros_like(identity)
    expected[:, setting[0] // 2, setting[0] // 2] = 1
    torch.testing.assert_close(identity, expected)


@pytest.mark.parametrize("name", list(SHIPPED))
def test_the_shipped_basis_is_a_fit_run_again(name):
    fitted, shipped = fit_disco_basis(*SHIPPED[name]), load_disco_basis(*SHIPPED[name])
    assert shipped.dtype == torch.float32
    torch.testing.assert_close(shipped.double(), fitted, rtol=0, atol=1e-6)


def test_writing_gives_the_files_that_ship(tmp_path):
    from safetensors import safe_open

    module.write_disco_bases(tmp_path)
    for name, (size, _, scales) in SHIPPED.items():
        with safe_open(tmp_path / f"{name}.safetensors", "pt") as file:
            torch.testing.assert_close(file.get_tensor("basis"), load_disco_basis(*SHIPPED[name]), rtol=0, atol=1e-6)
            about = file.metadata()
        assert (about["size"], about["scales"]) == (str(size), str(scales))
        assert float(about["loss"]) == pytest.approx(basis_loss(fit_disco_basis(*SHIPPED[name]), scales))


def test_without_safetensors_or_a_file_the_fit_runs(monkeypatch):
    assert load_disco_basis(5, 3, (1.0, 1.5, 2.0)).dtype == torch.float64
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    assert load_disco_basis(*STL10).dtype == torch.float64


def test_disco_fits_better_than_sesn_of_the_same_widths():
    for (size, effective_size, scales), kind, sigma in ((MNIST, "B", 1.9), (STL10, "A", 0.9)):
        ours = disco_basis(size, effective_size, scales, kind, sigma)
        sesn = hermite_basis(size, tuple(sigma * s for s in scales), effective_size**2, kind)
        assert basis_loss(ours, scales) < 0.6 * basis_loss(sesn, scales)
        means = [sum(basis_errors(basis, scales).values()) for basis in (ours, sesn)]
        assert means[0] < 0.5 * means[1]


@pytest.mark.slow
@pytest.mark.parametrize(("setting", "ratio"), [(STL10, 1.1), (MNIST, 2.0)])
def test_adam_with_its_authors_recipe_ends_higher(setting, ratio):
    """Adam at 1e-3, ten times less from epochs 20 and 30 on, 40 epochs of 157 steps, on the exact loss.

    Measured: 107.9 against 89.1 for photographs, 1230 against 409 for digits.
    """
    fitted, scales = fit_disco_basis(*setting), setting[2]
    forms = module._forms(setting[0], scales)
    flat, inner = fitted.flatten(2), slice(1, len(scales) - 1)  # the first and the last scale are whole
    free = torch.randn_like(flat[:, inner]).requires_grad_()
    optimizer = torch.optim.Adam([free], 1e-3)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [20 * 157, 30 * 157], 0.1)
    for _ in range(40 * 157):
        basis = torch.cat([flat[:, :1], free, flat[:, -1:]], 1)
        pairs = [pair for pair in forms if pair != (0, len(scales) - 1)]
        loss = sum(module._squares(forms[pair], basis, *pair).sum().sqrt() for pair in pairs)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    assert loss.item() > ratio * basis_loss(fitted, scales)


def test_the_basis_of_the_nets_is_hermite_functions_at_scale_one():
    size, effective_size, scales = MNIST
    basis = disco_basis(size, effective_size, scales, "B", 1.9)
    functions = hermite_functions(7, 1.9, 49, "B")
    functions = functions / functions.square().sum((1, 2), keepdim=True).sqrt()
    torch.testing.assert_close(basis[:, 0, 4:11, 4:11], functions)
    assert basis[:, 0].square().sum() == pytest.approx(49)
    torch.testing.assert_close(basis[:, 3, 1:14:2, 1:14:2], functions)


def test_mistakes_are_explained():
    with pytest.raises(ValueError, match="one must be a whole number"):
        fit_disco_basis(5, 3, (1.2, 1.5))
    with pytest.raises(ValueError, match="at scale 3 do not fit into 5"):
        fit_disco_basis(5, 3, (1.0, 1.5, 3.0))
    torch.testing.assert_close(fit_disco_basis(5, 3, (1.0, 2.0))[:, 0], fit_disco_basis(5, 3, (1.0,))[:, 0])
