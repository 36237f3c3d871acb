r"""DISCO's basis: kernels at several scales, such that convolution and resizing commute as well as they can.

At whole scales the kernels are those at scale 1 with their taps apart, which is exact. At the others they are free, and
minimise, over images of noise,

.. math:: L = \sum_{i < j} \sqrt{\mathbb E \sum_f \lVert D_{s_j / s_i}(\psi_{f j} * x)
          - \psi_{f i} * D_{s_j / s_i} x \rVert^2}

where :math:`D_r` resizes by :math:`1 / r` with bicubic interpolation and borders are left out (Sosnovik, Moskalev and
Smeulders, BMVC 2021). The expectation is taken exactly, so there is nothing to sample, and each square is a quadratic
form of the taps, so the sum of norms is solved by a few linear systems, reweighted.

``python -m fourierscale.lab.baselines.parts.disco_fit`` makes the shipped files again.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import torch
from torch import Tensor

from fourierscale.lab.baselines.parts.buffers import fixed
from fourierscale.lab.baselines.parts.hermite import HermiteKind, divide_by_smallest, hermite_functions
from fourierscale.models.files import replacing

__all__ = ["basis_errors", "basis_loss", "disco_basis", "fit_disco_basis", "load_disco_basis", "write_disco_bases"]

SHIPPED = {
    "disco-basis-mnist": (15, 7, (1.0, 1.26, 1.59, 2.0)),
    "disco-basis-stl10": (5, 3, (1.0, 1.41, 2.0)),
}
"""Files beside this one and what they were fitted for: size, effective size, scales."""
MEAN, VARIANCE = 1 / 2, 1 / 12  # pixels of the images are independent and uniform in [0, 1]
SIDE = 154


@fixed
def disco_basis(
    size: int,
    effective_size: int,
    scales: tuple[float, ...],
    kind: HermiteKind = "A",
    sigma: float = 0.9,
    mult: float = 1.5,
    max_order: int = 4,
) -> Tensor:
    """DISCO's basis of kernels: Hermite-Gauss functions, written in the fitted basis and so given at every scale.

    Args:
        size: Odd side of the kernels.
        effective_size: Side of the kernels at scale 1.
        scales: Scales of the kernels, from 1 upwards.
        kind: Hermite basis ``"A"`` or ``"B"``.
        sigma: Width of the functions at scale 1.
        mult: Factor by which each further width of basis B is smaller.
        max_order: Highest total order of basis B.

    Returns:
        ``(effective_size^2, scales, size, size)`` in double precision, made once: do not change it in place.

    >>> disco_basis(5, 3, (1.0, 1.41, 2.0)).shape
    torch.Size([9, 3, 5, 5])
    """
    fitted = load_disco_basis(size, effective_size, scales).double()
    functions = hermite_functions(effective_size, sigma, effective_size**2, kind, mult, max_order)
    return divide_by_smallest(torch.einsum("ft,tsuv->fsuv", functions.flatten(1), fitted))


def load_disco_basis(size: int, effective_size: int, scales: tuple[float, ...]) -> Tensor:
    """The fitted basis from the file that ships with the package; where there is none, :func:`fit_disco_basis`.

    The file needs ``safetensors``. Without it the fit runs, which takes less than a second.
    """
    for name, fitted_for in SHIPPED.items():
        if fitted_for == (size, effective_size, scales):
            try:
                from safetensors.torch import load
            except ImportError:
                break
            return load((resources.files("fourierscale.lab.baselines.parts") / f"{name}.safetensors").read_bytes())[
                "basis"
            ]
    return fit_disco_basis(size, effective_size, scales)


@fixed
def fit_disco_basis(size: int, effective_size: int, scales: tuple[float, ...]) -> Tensor:
    r"""The basis of one function per tap of a kernel of ``effective_size`` that minimises :func:`basis_loss`.

    Minimising :math:`\sum_p \sqrt{q_p}` of quadratic forms :math:`q_p` is minimising :math:`\sum_p w_p q_p` with
    :math:`w_p = 1 / \sqrt{q_p}` at the solution: a linear system, solved again with new weights until nothing changes.

    Args:
        size: Odd side of the kernels.
        effective_size: Side of the kernels at scale 1; at scale ``s`` they need ``s * (effective_size - 1) + 1``.
        scales: Smallest first; those that are whole numbers are fixed, and there must be one.

    Returns:
        ``(effective_size^2, scales, size, size)`` in double precision.

    >>> basis = fit_disco_basis(5, 3, (1.0, 1.5, 2.0))
    >>> round(basis_errors(basis, (1.0, 1.5, 2.0))[0, 1], 3)  # how far scales 1 and 1.5 are from each other
    0.035
    """
    whole = [s for s in scales if float(s).is_integer()]
    if not whole or list(scales) != sorted(scales):
        raise ValueError(f"scales must be given smallest first and one must be a whole number, got {scales}")
    if int(whole[-1]) * (effective_size - 1) + 1 > size:
        raise ValueError(
            f"kernels of {effective_size} x {effective_size} at scale {whole[-1]:g} do not fit into {size}"
        )
    count, taps = effective_size**2, size**2
    basis = torch.zeros(count, len(scales), taps, dtype=torch.float64)
    for number, scale in enumerate(scales):
        if scale in whole:
            basis[:, number] = _taps_apart(size, effective_size, int(scale)).flatten(1)
    forms = {(i, j): form for (i, j), form in _forms(size, scales).items() if not {scales[i], scales[j]} <= set(whole)}
    places = torch.arange(len(scales) * taps).reshape(len(scales), taps)
    free = torch.cat([places[n] for n, s in enumerate(scales) if s not in whole] or [places.new_empty(0)])
    known = torch.cat([places[n] for n, s in enumerate(scales) if s in whole])
    flat = basis.flatten(1)  # the same memory as basis
    weights, loss = dict.fromkeys(forms, 1.0), float("inf")
    while forms:
        system = torch.zeros(len(scales) * taps, len(scales) * taps, dtype=torch.float64)
        for (i, j), form in forms.items():
            both = torch.cat([places[i], places[j]])
            system[both[:, None], both] += weights[i, j] * form
        right = -system[free[:, None], known] @ flat[:, known].T
        flat[:, free] = torch.linalg.solve(system[free[:, None], free], right).T
        norms = {(i, j): _squares(form, basis, i, j).sum().sqrt().item() for (i, j), form in forms.items()}
        if not sum(norms.values()) < (1 - 1e-12) * loss:
            break
        loss = sum(norms.values())
        weights = {pair: 1 / norm for pair, norm in norms.items()}
    return torch.unflatten(basis, 2, (size, size))


def basis_loss(basis: Tensor, scales: tuple[float, ...]) -> float:
    """The loss of this module's first lines for any basis ``(functions, scales, size, size)``."""
    forms = _forms(basis.shape[-1], scales)
    return sum(_squares(form, basis.flatten(2), *pair).sum().sqrt().item() for pair, form in forms.items())


def basis_errors(basis: Tensor, scales: tuple[float, ...]) -> dict[tuple[int, int], float]:
    """For each pair of scales, the loss's square relative to that of its second term, summed over functions."""
    found = {}
    for (i, j), form in _forms(basis.shape[-1], scales).items():
        zero = torch.zeros_like(basis.flatten(2))
        zero[:, i] = basis.flatten(2)[:, i]
        norm = _squares(form, zero, i, j).sum()
        found[i, j] = (_squares(form, basis.flatten(2), i, j).sum() / norm).item()
    return found


def write_disco_bases(folder: Path) -> None:
    """Fit the bases that ship and write them, in single precision, with what they were fitted for."""
    from safetensors.torch import save_file

    for name, (size, effective_size, scales) in SHIPPED.items():
        basis = fit_disco_basis(size, effective_size, scales)
        about = {"size": size, "effective_size": effective_size, "scales": scales, "loss": basis_loss(basis, scales)}
        metadata = {key: str(value) for key, value in about.items()}
        with replacing(folder / f"{name}.safetensors") as partial:
            save_file({"basis": basis.float().contiguous()}, partial, metadata)


def _taps_apart(size: int, effective_size: int, scale: int) -> Tensor:
    """One function per tap, ``scale`` samples apart."""
    places = size // 2 + scale * (torch.arange(effective_size) - effective_size // 2)
    line = torch.nn.functional.one_hot(places, size).double()
    return torch.einsum("au,bv->abuv", line, line).flatten(0, 1)


def _forms(size: int, scales: tuple[float, ...]) -> dict[tuple[int, int], Tensor]:
    """The quadratic form of every pair of scales."""
    pairs = [(i, j) for j in range(len(scales)) for i in range(j)]
    return {(i, j): _form(size, scales[j] / scales[i]) for i, j in sorted(pairs)}


def _squares(form: Tensor, basis: Tensor, i: int, j: int) -> Tensor:
    """The form's value for each function ``(functions, scales, taps)``."""
    both = basis[:, [i, j]].flatten(1).double()
    return ((both @ form) * both).sum(1).clamp(min=0)


@fixed
def _form(size: int, ratio: float) -> Tensor:
    r"""Expected :math:`\lVert \psi_i * D x - D(\psi_j * x) \rVert^2` as a form of the taps of both, the former first.

    On one axis, tap ``t`` of either term sees the image through a matrix of one row per output sample. On two axes it
    sees it through Kronecker products, so inner products, summed over the samples, are products of those of one axis.
    """
    rows = _resize_matrix(SIDE, ratio)
    half, border = size // 2, size // 2 + 1
    stop = len(rows) - border
    after = torch.stack([rows[border + t : stop + t] for t in range(-half, half + 1)])  # (taps, samples, SIDE)
    before = torch.stack([rows[border:stop].roll(t, 1) for t in range(-half, half + 1)])
    seen = torch.stack([after, before])  # (2, taps, samples, SIDE)
    inner = torch.einsum("atpn,bupn->atbu", seen, seen)
    noise = torch.einsum("atbu,avbw->atvbuw", inner, inner)
    # The mean: every row of a resize sums to one.
    total = VARIANCE * noise + MEAN**2 * (stop - border) ** 2
    total[0, ..., 1, :, :] *= -1
    total[1, :, :, 0] *= -1
    return total.reshape(2 * size**2, 2 * size**2)


def _resize_matrix(n: int, ratio: float) -> Tensor:
    """Bicubic resizing of ``n`` samples by ``1 / ratio``, as torch does it, ``(floor(n / ratio), n)``."""
    images = torch.eye(n, dtype=torch.float64)[:, None, :, None].expand(n, 1, n, 2)
    resized = torch.nn.functional.interpolate(images, scale_factor=(1 / ratio, 1.0), mode="bicubic")
    return resized[:, 0, :, 0].T


if __name__ == "__main__":
    write_disco_bases(Path(str(resources.files("fourierscale.lab.baselines.parts"))))
