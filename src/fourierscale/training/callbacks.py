"""What happens beside training: a log of the epochs that survives a restart."""

from __future__ import annotations

import csv
import io
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytorch_lightning as pl

from fourierscale.models.files import write_whole

__all__ = ["EpochLog", "read_log", "thinned"]

log = logging.getLogger(__name__)
MEASURED = ("val_loss", "val_acc", "val_scale_con", "val_iou", "val_error")
COLUMNS = ("epoch", "step", "lr", "loss", *MEASURED, "seconds")


class EpochLog(pl.Callback):
    """One row per epoch in ``log.csv``; a resumed run drops the rows of epochs that it does again.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._started = 0.0
        self._validated = -1

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Keep the rows of the epochs that are done."""
        if trainer.is_global_zero:
            self._write(row for row in read_log(self.path) if int(row["epoch"]) < trainer.current_epoch)

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock."""
        self._started = time.perf_counter()

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Remember that this epoch was validated."""
        self._validated = trainer.current_epoch

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write the row."""
        loss = float(pl_module.train_loss.compute())  # type: ignore[operator, union-attr]
        row: dict[str, Any] = {
            "epoch": trainer.current_epoch,
            "step": trainer.global_step,
            "lr": f"{trainer.optimizers[0].param_groups[0]['lr']:.4g}",
            "loss": f"{loss:.6g}",
            "seconds": f"{time.perf_counter() - self._started:.2f}",
        }
        if self._validated == trainer.current_epoch:
            metrics = trainer.callback_metrics
            row |= {name: f"{float(metrics[name]):.6g}" for name in MEASURED if name in metrics}
        if not trainer.is_global_zero:
            return
        self._write([*read_log(self.path), row])
        shown = ", ".join(f"{name} {row[name]}" for name in COLUMNS[3:] if name in row)
        log.info("epoch %d of %d: %s", trainer.current_epoch + 1, trainer.max_epochs, shown)

    def _write(self, rows: Iterable[Mapping[str, Any]]) -> None:
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
        write_whole(self.path, text.getvalue())


def read_log(path: Path) -> list[dict[str, str]]:
    """The rows of a log, without damaged ones."""
    if not path.is_file():
        return []
    try:
        with path.open(newline="", encoding="utf-8", errors="replace") as file:
            rows = [{name: row.get(name) or "" for name in COLUMNS} for row in csv.DictReader(file)]
    except csv.Error:
        return []
    return [row for row in rows if _is_whole(row)]


def _is_whole(row: Mapping[str, str]) -> bool:
    """Whether every value is a number, and those that each epoch has are there."""
    try:
        numbers = {name: float(value) for name, value in row.items() if value}
    except ValueError:
        return False
    return row["epoch"].isascii() and row["epoch"].isdigit() and numbers.keys() >= {"epoch", "loss", "seconds"}


def thinned(rows: Sequence[Mapping[str, str]], most: int = 60) -> dict[str, list[float | None]]:
    """The columns of a log with at most so many of its rows, spread evenly, the first and the last among them.

    >>> thinned([{"epoch": str(n), "loss": f"{1 / (n + 1):.3g}"} for n in range(7)], most=3)
    {'epoch': [0.0, 3.0, 6.0], 'loss': [1.0, 0.25, 0.143]}
    """
    kept: Sequence[int] = range(len(rows))
    if len(rows) > most:
        kept = sorted({round((len(rows) - 1) * number / (most - 1)) for number in range(most)})
    columns = [name for name in COLUMNS if any(row.get(name) for row in rows)]
    return {name: [float(rows[item][name]) if rows[item].get(name) else None for item in kept] for name in columns}
