"""Small tensors on their way to a device."""

import pytest
import torch

from fourierscale.data import ScaledDataset, get_augmentation, list_augmentations
from fourierscale.data.moving import moved


def test_moving_keeps_the_values():
    values = torch.arange(5)
    assert torch.equal(moved(values, torch.device("cpu")), values)
    assert moved(values, torch.device("meta")).shape == values.shape


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("augment", list_augmentations())
def test_a_batch_is_made_on_a_gpu_without_waiting_for_it(augment):
    images = torch.randint(0, 256, (8, 3, 32, 32), dtype=torch.uint8)
    dataset = ScaledDataset(images, [0, 1] * 4, resolutions=[20], augment=get_augmentation(augment))
    expected = dataset.__getitems__(range(8)).images
    dataset.to("cuda")
    dataset.__getitems__(range(8))  # constants come to the GPU when they are first used
    torch.cuda.set_sync_debug_mode("error")
    try:
        batch = dataset.__getitems__(range(8))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.testing.assert_close(batch.images.cpu(), expected, atol=1e-5, rtol=1e-5)
