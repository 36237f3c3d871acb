"""Training: losses, configs, checkpoints, evaluation."""

from fourierscale.training.losses import consistency_hinge, level_cross_entropy, log_odds_hinge, scale_loss

__all__ = ["consistency_hinge", "level_cross_entropy", "log_odds_hinge", "scale_loss"]
