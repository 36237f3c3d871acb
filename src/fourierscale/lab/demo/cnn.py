"""A small plain CNN, trained on the spot: what the scale-equivariant nets are shown beside."""

from __future__ import annotations

import copy

import torch
from torch import nn

from fourierscale.data import ScaledDataset, make_loader
from fourierscale.data.progress import ProgressCallback
from fourierscale.lab.baselines.cnn import SmallCNN

__all__ = ["SmallCNN", "train_cnn"]


def train_cnn(
    dataset: ScaledDataset,
    classes: int,
    size: int,
    epochs: int = 2,
    batch_size: int = 64,
    lr: float = 5e-3,
    seed: int = 0,
    device: torch.device | str = "cpu",
    report: ProgressCallback | None = None,
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
    padded.enlarge, padded.enlarge_size = "zero", size
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
