"""What does one nested map around a whole model cost beside the model itself on the same grids?"""

from __future__ import annotations

import copy
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fourierscale.functional.bands import Box
from fourierscale.lab.bench.measure import peak_bytes
from fourierscale.lab.bench.suites import Job, Record, Settings, chosen
from fourierscale.models import UNet
from fourierscale.models.resnet import ResidualTrunk
from fourierscale.nn import NestedModel
from fourierscale.nn.nested_model import Statistics

__all__ = ["CASES", "NestedCase", "measure_nested"]


@dataclass(frozen=True)
class NestedCase:
    """A model and the levels of the nested map around it.

    Attributes:
        widths: Channels of each stage.
        levels: The resolutions; the highest is the side of the images.
        batch: Images in a batch.
        unet: Whether it is a U-Net, else the trunk of a residual net.
        norms: Whether batch norms have statistics for each level.
        checkpoint: Whether levels are computed again in the backward pass.
    """

    widths: tuple[int, ...]
    levels: tuple[int, ...]
    batch: int
    unet: bool = True
    norms: Statistics = "shared"
    checkpoint: bool = False

    def model(self) -> nn.Module:
        """The bare model, with random weights."""
        return UNet(3, 2, self.widths) if self.unet else ResidualTrunk(3, self.widths)


UNET = (32, 64, 128, 256)
OCTAVES = (128, 256, 512, 1024)
CASES: dict[str, NestedCase] = {
    "unet-96": NestedCase(UNET, (48, 68, 96), 8),
    "resnet-stl10-small": NestedCase((32, 64, 128), tuple(range(48, 97, 8)), 16, unet=False, norms="level"),
    "unet-1024": NestedCase(UNET, OCTAVES, 1),
    "unet-1024-checkpoint": NestedCase(UNET, OCTAVES, 1, checkpoint=True),
}
QUICK = NestedCase((4, 8), (12, 24), 2)


class Ready(nn.Module):
    """A model whose answers are there: what is left of a nested model is its transforms."""

    def __init__(self, answers: Mapping[Box, Tensor]) -> None:
        super().__init__()
        self.answers = answers

    def forward(self, x: Tensor) -> Tensor:
        """The answer for a grid."""
        return self.answers[tuple(x.shape[2:])]


def measure_nested(names: Sequence[str], settings: Settings) -> Iterator[Record]:
    """Milliseconds and memory of a training step (without optimizer) and of an answer.

    ``top``: the bare model on the highest level alone. ``passes``: the bare model on the grids of all levels.
    ``transforms``: the nested model without its model. ``nested``: the whole. ``nested_ratio`` is the median over the
    repeats of its time over that of passes and transforms together. Memory is the most that is allocated at a time,
    beyond parameters and images.

    Args:
        names: Cases; all of them if none is given.
        settings: A quick run measures a small U-Net.
    """
    known = {"unet-quick": QUICK} if settings.quick else CASES
    for case in chosen(names, known):
        name = next(name for name, other in known.items() if other is case)
        for training in (True,) if case.checkpoint else (True, False):
            yield f"nested-model-{settings.device.type}", _measure(name, case, training, settings)


def _measure(name: str, case: NestedCase, training: bool, settings: Settings) -> dict[str, object]:
    device, side = settings.device, case.levels[-1]
    torch.manual_seed(0)
    bare = case.model().to(device).train(training)
    images = settings.batch or case.batch
    x = torch.randn(images, 3, side, side, device=device)
    options = {"norms": case.norms, "checkpoint": case.checkpoint}
    net = NestedModel(copy.deepcopy(bare), case.levels, **options).train(training)  # type: ignore[arg-type]
    table = net.summary(side)
    inputs = [torch.randn(images, 3, *row.grid, device=device) for row in table.rows]
    with torch.no_grad():
        answers = {tuple(one.shape[2:]): torch.randn_like(bare(one)).requires_grad_(training) for one in inputs}
    transforms = copy.deepcopy(net)
    transforms.model = Ready(answers)

    def step(model: nn.Module, given: Sequence[Tensor]) -> Job:
        gradients: list[Tensor] = []

        def answer() -> list[Tensor]:
            return [model(one) for one in given]

        def train() -> None:
            model.zero_grad(set_to_none=True)
            outputs = answer()
            gradients[:] = gradients or [torch.randn_like(y) for y in outputs]
            torch.autograd.backward(outputs, gradients)

        return train if training else torch.no_grad()(answer)

    jobs = {
        "top": step(bare, inputs[-1:]),
        "passes": step(bare, inputs),
        "transforms": step(transforms, [x]),
        "nested": step(net, [x]),
    }
    taken = dict(zip(jobs, settings.times(list(jobs.values())), strict=True))
    peaks: dict[str, float] = {}
    for which, job in jobs.items():
        bare.zero_grad(set_to_none=True)
        net.zero_grad(set_to_none=True)
        peaks[which] = peak_bytes(job, device) / 2**20
    ratios = [n / (p + t) for n, p, t in zip(taken["nested"], taken["passes"], taken["transforms"], strict=True)]
    row: dict[str, object] = {"case": name, "mode": "train" if training else "inference", "batch": images}
    row |= {"size": side, "levels": len(case.levels), "passes": table.answer}
    row |= {f"{which}_ms": 1e3 * statistics.median(own) for which, own in taken.items()}
    row["nested_ratio"] = statistics.median(ratios)
    return row | {f"{which}_mib": peaks[which] for which in ("top", "passes", "nested")}
