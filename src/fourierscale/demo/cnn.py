"""A small plain CNN, trained on the spot: what the scale-equivariant nets are shown beside."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from fourierscale.data import ScaledDataset, make_loader
from fourierscale.data.sources import Report
from fourierscale.testing import Domain

__all__ = ["SmallCNN", "train_cnn"]


class SmallCNN(nn.Module):
    """Three blocks of 5x5 convolution, batch norm and ReLU, one max pooling, and a linear classifier.

    It takes images of one size; smaller ones are padded with black (``fit="zero"``).

    >>> SmallCNN(1, 10)(torch.rand(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """

    features_domain: Domain = "image"

    def __init__(self, in_channels: int, classes: int, widths: tuple[int, int, int] = (16, 32, 32)) -> None:
        super().__init__()
        first, second, third = widths
        self.body = nn.Sequential(
            *_block(in_channels, first), nn.MaxPool2d(2), *_block(first, second), *_block(second, third)
        )
        self.head = nn.Sequential(nn.AdaptiveMaxPool2d(2), nn.Flatten(), nn.Linear(4 * third, classes))

    def features(self, x: Tensor) -> Tensor:
        """The final feature map ``(B, C, n / 2, n / 2)``."""
        features: Tensor = self.body(x)
        return features

    def forward(self, x: Tensor) -> Tensor:
        """Images ``(B, C, n, n)`` to logits ``(B, classes)``."""
        logits: Tensor = self.head(self.features(x))
        return logits


def train_cnn(
    dataset: ScaledDataset,
    classes: int,
    size: int,
    epochs: int = 2,
    batch_size: int = 64,
    lr: float = 5e-3,
    seed: int = 0,
    device: torch.device | str = "cpu",
    report: Report | None = None,
) -> SmallCNN:
    """Train a :class:`SmallCNN` with Adam and a one-cycle schedule.

    Args:
        dataset: Images at their own resolutions; they are padded with black to ``size``.
        classes: How many there are.
        size: Side of the images that the CNN takes.
        epochs: Passes over the images.
        batch_size: Images in a batch.
        lr: Highest learning rate.
        seed: Decides initial weights and the order of the batches.
        device: Where to compute.
        report: Told which share is done.
    """
    padded = copy.copy(dataset)
    padded.fit, padded.fit_size = "zero", size
    loader = make_loader(padded, batch_size, shuffle=True, seed=seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = SmallCNN(int(dataset.images.shape[1]), classes).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    steps = epochs * len(loader)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=steps)
    step = 0
    for epoch in range(epochs):
        loader.batch_sampler.set_epoch(epoch)  # type: ignore[union-attr]
        for batch in loader:
            loss = nn.functional.cross_entropy(model(batch.images.to(device)), batch.labels.to(device))
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call, unused-ignore]
            optimizer.step()
            schedule.step()
            step += 1
            if report is not None:
                report("training", step / steps)
    return model.eval()


def _block(in_channels: int, out_channels: int) -> list[nn.Module]:
    return [nn.Conv2d(in_channels, out_channels, 5, padding=2), nn.BatchNorm2d(out_channels), nn.ReLU()]
