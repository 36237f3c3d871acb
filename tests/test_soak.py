"""Memory stays flat: a short version of ``make soak``, and that growth is noticed."""

from __future__ import annotations

import pytest
import torch

from tests.soak import ALLOWED, grown, soak


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_memory_stays_flat_for_two_minutes(device: str) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert grown(soak(2.0, device, told=str)) < ALLOWED
    finally:
        torch.set_num_threads(before)


def test_growth_is_noticed_and_full_caches_are_not() -> None:
    full = [min(100 + number, 150) for number in range(200)]
    assert grown(full) == 1
    assert grown([memory + number // 2 for number, memory in enumerate(full)]) > ALLOWED


def test_a_soak_looks_at_memory_all_the_time() -> None:
    told: list[str] = []
    found = soak(0.1, told=told.append)
    assert len(found) == len(told) > 1
    assert all(memory > 10**7 for memory in found)
