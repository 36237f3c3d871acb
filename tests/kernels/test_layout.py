"""How features and rims lie."""

import torch

from fourierscale.kernels.layout import is_chain, rim


def test_a_rim_is_cut_into_blocks_that_do_not_overlap():
    for box, inside in (((3, 3), (2, 2)), ((3, 5), (3, 2)), ((2, 2, 4), (1, 2, 2)), ((4,), (1,)), ((2, 2), None)):
        count = torch.zeros([2 * k + 1 for k in box])
        for block in rim(box, inside):
            count[tuple(slice(*span) for span in block)] += 1
        if inside is not None:
            corner = tuple(slice(0, 2 * k + 1) for k in inside)
            assert count[corner].sum() == 0
            count[corner] = 1
        assert (count == 1).all(), (box, inside)


def test_a_chain_grows_on_every_axis():
    assert is_chain([(1, 2), (1, 4), (3, 4)])
    assert not is_chain([(1, 4), (3, 2)])
