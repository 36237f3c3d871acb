"""DistributedDataParallel: two processes train one net, and it stays exact.

    python examples/two_processes.py
    torchrun --nproc-per-node 2 examples/two_processes.py

The first starts its own two processes on this machine, with gloo on the CPU; the second is what a cluster runs. Both
print the same. Features and parameters are real numbers, so DistributedDataParallel needs nothing special. The
processes deal the batches of one process among themselves. Expect the loss to fall, both processes to end with the
same weights to the last bit, and an equivariance error below 1e-12 in every epoch.
"""

from __future__ import annotations

import os
import socket
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from fourierscale import create_model
from fourierscale.data import ScaledDataset, make_loader
from fourierscale.functional import analyze
from fourierscale.models import Preprocessing
from fourierscale.testing import equivariance_error

RESOLUTIONS = range(8, 17, 2)
EPOCHS, PROCESSES = 3, 2


def stripes(count: int = 240) -> ScaledDataset:
    """Two classes, upright and flat stripes with noise, 16 pixels wide."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % 2
    phase = torch.rand(count, 1, 1, generator=generator)
    waves = torch.sin(2 * torch.pi * (torch.arange(16) / 8 + phase)).expand(count, 16, 16)
    images = torch.where(labels[:, None, None] == 1, waves.mT, waves)
    noisy = 0.5 + 0.25 * images + 0.15 * torch.randn(count, 16, 16, generator=generator)
    pixels = (255 * noisy.clamp(0, 1)).byte()[:, None]
    return ScaledDataset(pixels, labels, RESOLUTIONS, preprocessing=Preprocessing(mean=(0.5,), std=(0.25,)))


def train(rank: int, world: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = stripes()
    options = {"widths": (8, 8), "pool": 1, "hidden": 16, "pointwise": False}
    net = create_model("scalenet-tiny", classes=2, resolutions=RESOLUTIONS, **options)
    model = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loader = make_loader(data, batch_size=16, shuffle=True, seed=0, rank=rank, world_size=world, even=True)
    table = Table(title=f"{world} processes, {len(data)} images at {RESOLUTIONS[0]} to {RESOLUTIONS[-1]} px")
    for column in ("epoch", "images of process 0", "loss", "equivariance error at 9 px", "seconds"):
        table.add_column(column, justify="right")
    x = analyze(next(iter(make_loader(ScaledDataset(data.images, data.labels, [16]), batch_size=8))).images)
    for epoch in range(EPOCHS):
        loader.batch_sampler.set_epoch(epoch)
        begun, seen, total = time.perf_counter(), 0, torch.zeros(2)
        for batch in loader:
            logits = model(batch.images)  # (B, levels, 2)
            labels = batch.labels.repeat_interleave(logits.shape[1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen += len(batch.labels)
            total += torch.tensor([float(loss.detach()), 1.0])
        dist.all_reduce(total)
        with torch.no_grad():
            error = equivariance_error(net.net.blocks, x, 9, domain="coefficients")
        took = time.perf_counter() - begun
        table.add_row(str(epoch), str(seen), f"{total[0] / total[1]:.3f}", f"{error:.0e}", f"{took:.1f}")
    mine = torch.cat([parameter.detach().flatten() for parameter in net.parameters()])
    all_weights = [torch.empty_like(mine) for _ in range(world)]
    dist.all_gather(all_weights, mine)
    if rank == 0:
        console = Console(width=110)
        console.print(table)
        console.print(f"the same weights in every process: {all(torch.equal(mine, other) for other in all_weights)}")


def worker(rank: int, world: int, port: int) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank), "WORLD_SIZE": str(world)}
    join_and_train()


def join_and_train() -> None:
    """As a process of a group: torchrun, or :func:`worker`, has set the environment variables that say which."""
    dist.init_process_group("gloo")
    try:
        train(dist.get_rank(), dist.get_world_size())
        dist.barrier()  # nobody leaves while another still needs the group
    finally:
        dist.destroy_process_group()


def main() -> None:
    if "RANK" in os.environ:
        join_and_train()
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.start_processes(worker, args=(PROCESSES, port), nprocs=PROCESSES, start_method="spawn")


if __name__ == "__main__":
    main()
