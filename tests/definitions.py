"""Slow, obvious definitions, written from the paper's equations with loops and complex exponentials."""

import cmath
import itertools
import math

import torch


def half(n):
    """Highest frequency strictly below n / 2, found by counting."""
    return max(k for k in range(n) if k < n / 2)


def frequencies(band):
    return range(-band, band + 1)


def dft(x, bands):
    """Paper, Eq. 1: X[k] = 1/N sum_n x[n] e^{-2 pi i k n / N}, as a dict over frequency tuples."""
    sizes = x.shape
    result = {}
    for k in itertools.product(*(frequencies(b) for b in bands)):
        total = 0j
        for n in itertools.product(*(range(s) for s in sizes)):
            phase = sum(ki * ni / si for ki, ni, si in zip(k, n, sizes, strict=True))
            total += x[n].item() * cmath.exp(-2j * math.pi * phase)
        result[k] = total / math.prod(sizes)
    return result


def idft(spectrum, sizes):
    """Paper, Eq. 2: x[n] = sum_k X[k] e^{2 pi i k n / N}."""
    x = torch.zeros(sizes, dtype=torch.float64)
    for n in itertools.product(*(range(s) for s in sizes)):
        total = 0j
        for k, value in spectrum.items():
            total += value * cmath.exp(2j * math.pi * sum(ki * ni / si for ki, ni, si in zip(k, n, sizes, strict=True)))
        assert abs(total.imag) < 1e-9
        x[n] = total.real
    return x


def truncate(spectrum, bands):
    return {k: v for k, v in spectrum.items() if all(abs(ki) <= b for ki, b in zip(k, bands, strict=True))}


def basis(index, t):
    """Function number ``index`` of [1, sqrt2 cos t, sqrt2 sin t, sqrt2 cos 2t, ...]."""
    if index == 0:
        return 1.0
    k = (index + 1) // 2
    return math.sqrt(2) * (math.cos(k * t) if index % 2 else math.sin(k * t))


def coefficients(x):
    """Mean of the image times each basis function."""
    sizes = x.shape
    shape = tuple(2 * half(n) + 1 for n in sizes)
    result = torch.zeros(shape, dtype=torch.float64)
    for index in itertools.product(*(range(s) for s in shape)):
        for n in itertools.product(*(range(s) for s in sizes)):
            wave = math.prod(basis(i, 2 * math.pi * ni / si) for i, ni, si in zip(index, n, sizes, strict=True))
            result[index] += x[n].item() * wave / math.prod(sizes)
    return result


def spectrum_of(coeffs):
    """Complex spectrum of real coefficients, through samples on the smallest grid."""
    return dft(samples(coeffs, coeffs.shape), [half(n) for n in coeffs.shape])


def samples(coeffs, sizes):
    x = torch.zeros(sizes, dtype=torch.float64)
    for n in itertools.product(*(range(s) for s in sizes)):
        for index in itertools.product(*(range(s) for s in coeffs.shape)):
            wave = math.prod(basis(i, 2 * math.pi * ni / si) for i, ni, si in zip(index, n, sizes, strict=True))
            x[n] += coeffs[index].item() * wave
    return x


def level_of(k, levels):
    """Paper, Eq. 15: the first level that holds frequency k; levels are bands, coarse to fine."""
    return next(level for level in levels if max(abs(ki) for ki in k) <= level)


def nonlinearity(spectrum, levels, function):
    """Paper, Eqs. 14 and 15, on square bands: Y[k] = F(sigma(F^-1(X[-K:K])))[k] at the level K of k."""
    axes = len(next(iter(spectrum)))
    cached = {}
    for level in levels:
        sizes = (2 * level + 1,) * axes
        cached[level] = dft(function(idft(truncate(spectrum, (level,) * axes), sizes)), (level,) * axes)
    top = levels[-1]
    return {k: cached[level_of(k, levels)][k] for k in itertools.product(frequencies(top), repeat=axes)}


def pooling(spectrum, levels, window, function):
    """Paper, Eq. 16: Y[k] = F(Pool(F^-1(X[-wk:wk])))[k]; levels are bands of the output."""
    axes = len(next(iter(spectrum)))
    cached = {}
    for level in levels:
        x = idft(truncate(spectrum, (window * level,) * axes), (window * (2 * level + 1),) * axes)
        pooled = torch.zeros((2 * level + 1,) * axes, dtype=torch.float64)
        for n in itertools.product(range(2 * level + 1), repeat=axes):
            pooled[n] = function(x[tuple(slice(window * i, window * (i + 1)) for i in n)])
        cached[level] = dft(pooled, (level,) * axes)
    return {k: cached[level_of(k, levels)][k] for k in itertools.product(frequencies(levels[-1]), repeat=axes)}


def kernel_spectrum(taps, reference, bands):
    """K[p] = sum_n k[n] e^{-2 pi i p (n - c) / d} with c = l // 2."""
    result = {}
    for p in itertools.product(*(frequencies(b) for b in bands)):
        total = 0j
        for n in itertools.product(*(range(s) for s in taps.shape)):
            phase = sum(pi * (ni - s // 2) / d for pi, ni, s, d in zip(p, n, taps.shape, reference, strict=True))
            total += taps[n].item() * cmath.exp(-2j * math.pi * phase)
        result[p] = total
    return result


def paper_kernel_spectrum(kernel_dft, reference, p):
    """Paper, Eq. 13, one axis, corner-anchored, with its factor 1/d."""
    size = len(kernel_dft)
    total = 0j
    for m in range(size):
        inner = sum(cmath.exp(-2j * math.pi * n * (p / reference - m / size)) for n in range(size))
        total += complex(kernel_dft[m]) * inner
    return total / reference
