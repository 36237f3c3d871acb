"""Images per second: digits at their resolutions, cut and downscaled a batch at a time, against one by one."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

import torch

from fourierscale.data import ResolutionBatchSampler, ScaledDataset, load_protocol, make_loader
from fourierscale.lab.bench.suites import Record, Settings

__all__ = ["measure_data"]


def measure_data(names: Sequence[str], settings: Settings) -> Iterator[Record]:
    """Time a pass over test images both ways; the images must be the same.

    Args:
        names: Protocols; ``mnist-scale`` if none is given.
        settings: A quick run takes 2,000 images; batches have 256 if nothing else is said.
    """
    batch_size = settings.batch or 256
    for name in names or ["mnist-scale"]:
        test = load_protocol(name).test
        images = torch.arange(len(test) if not settings.quick else min(2000, len(test)))
        how = test.preprocessing
        few = ScaledDataset(test.images[images], test.labels[images], test.resolutions, preprocessing=how)
        for batch in make_loader(few, batch_size):
            alone = torch.stack([few[item][0] for item in batch.indices.tolist()])
            torch.testing.assert_close(batch.images, alone, atol=1e-5, rtol=0)

        def batched(few: ScaledDataset = few) -> float:
            return sum(float(batch.images.sum()) for batch in make_loader(few, batch_size))

        def one_by_one(few: ScaledDataset = few) -> float:
            batches = ResolutionBatchSampler(few.item_resolutions, batch_size)
            return sum(float(torch.stack([few[item][0] for item in items]).sum()) for items in batches)

        for path, own in zip(("batched", "one by one"), settings.times([batched, one_by_one]), strict=True):
            seconds = statistics.median(own)
            row = {"path": path, "images": len(few), "seconds": seconds, "images_per_s": round(len(few) / seconds)}
            yield "data", row | {"protocol": name, "batch_size": batch_size, "repeats": len(own)}
