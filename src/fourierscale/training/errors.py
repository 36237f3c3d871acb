"""What can go wrong in training, as one small family of exceptions; each text is one sentence for the user."""

from __future__ import annotations

__all__ = [
    "CheckpointError",
    "ConfigError",
    "LostProcessError",
    "NoMemoryError",
    "NonFiniteLossError",
    "StoppedError",
    "TrainingError",
]


class TrainingError(Exception):
    """Base of every error of :mod:`fourierscale.training` that a user can mend."""

    status = 2
    """Exit status of a command that ends with it."""


class ConfigError(TrainingError):
    """A setting that does not exist or has a value it cannot have."""


class CheckpointError(TrainingError):
    """A checkpoint or a file of weights that cannot be used."""


class NoMemoryError(TrainingError):
    """The GPU has too little memory, perhaps because other processes hold it."""

    status = 12


class LostProcessError(TrainingError):
    """Another process of the same run has ended, or has not answered in time."""


class NonFiniteLossError(TrainingError):
    """The loss became infinite or NaN."""


class StoppedError(TrainingError):
    """The user stopped the run (Ctrl-C); the text says in which epoch, and how to continue."""

    status = 130
