"""Constants are made once, and may be dropped while others use them."""

import threading

import torch

from fourierscale import kernels
from fourierscale.functional import analyze, clear_constants, constants
from fourierscale.functional.transform import synthesis_matrix


def test_a_constant_is_the_same_tensor_until_it_is_cleared():
    like = torch.float32, torch.device("cpu")
    first = synthesis_matrix(9, 4, *like)
    assert synthesis_matrix(9, 4, *like) is first
    clear_constants()
    assert synthesis_matrix(9, 4, *like) is not first
    assert torch.equal(synthesis_matrix(9, 4, *like), first)


def test_everything_that_is_kept_is_cleared():
    kernels.nested_activation(torch.randn(1, 2, 9, 9), [5, 9], "relu")
    assert any(cached.cache_info().currsize for cached in constants._CACHES)
    clear_constants()
    assert not any(cached.cache_info().currsize for cached in constants._CACHES)


def test_constants_are_cleared_beside_threads_that_use_them():
    stop, raised, x = threading.Event(), [], torch.randn(1, 2, 9, 9)
    expected = kernels.nested_activation(analyze(x), [5, 9], "relu")

    def work():
        try:
            while not stop.is_set():
                assert torch.equal(kernels.nested_activation(analyze(x), [5, 9], "relu"), expected)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(300):
        clear_constants()
    stop.set()
    for thread in threads:
        thread.join()
    assert not raised
