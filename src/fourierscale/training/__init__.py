"""Training: losses, configs, checkpoints, evaluation.

>>> from fourierscale.training import load_config
>>> load_config("mnist-best").loss.hinge
'pairs'

``train(load_config("tiny"), "runs/tiny")`` trains; ``fourierscale.models.load_model("runs/tiny")`` gives the
model back.
"""

from fourierscale.training.config import (
    Config,
    DataConfig,
    EvalConfig,
    LossConfig,
    ModelConfig,
    OptimConfig,
    TrainConfig,
    list_presets,
    load_config,
)
from fourierscale.training.datamodule import ScaleDataModule, load_splits
from fourierscale.training.errors import (
    CheckpointError,
    ConfigError,
    LostProcessError,
    NoMemoryError,
    NonFiniteLossError,
    StoppedError,
    TrainingError,
)
from fourierscale.training.evaluation import evaluate
from fourierscale.training.losses import (
    consistency_hinge,
    level_cross_entropy,
    level_divergence,
    log_odds_hinge,
    scale_loss,
)
from fourierscale.training.module import ScaleModule
from fourierscale.training.run import train

__all__ = [
    "CheckpointError",
    "Config",
    "ConfigError",
    "DataConfig",
    "EvalConfig",
    "LossConfig",
    "LostProcessError",
    "ModelConfig",
    "NoMemoryError",
    "NonFiniteLossError",
    "OptimConfig",
    "ScaleDataModule",
    "ScaleModule",
    "StoppedError",
    "TrainConfig",
    "TrainingError",
    "consistency_hinge",
    "evaluate",
    "level_cross_entropy",
    "level_divergence",
    "list_presets",
    "load_config",
    "load_splits",
    "log_odds_hinge",
    "scale_loss",
    "train",
]
