r"""What is minimised: cross entropy at every level, and penalties on levels that do worse than coarser ones."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from fourierscale.models.contract import as_levels

__all__ = [
    "Hinge",
    "consistency_hinge",
    "dice_loss",
    "level_cross_entropy",
    "level_divergence",
    "log_odds_hinge",
    "map_cross_entropy",
    "relative_error",
    "scale_loss",
]

Hinge: TypeAlias = Literal["none", "batch", "sample", "pairs"]
"""Which penalty :func:`scale_loss` adds: none, the paper's on batch means or per sample, or the one on log-odds."""
Reduction: TypeAlias = Literal["mean", "sample"]
LevelSum: TypeAlias = Literal["sum", "mean"]


def level_cross_entropy(logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    r"""Cross entropy of every image at every level.

    .. math:: \ell_{b,k} = -\log \mathrm{softmax}(\hat y_b[k])_{y_b}

    Args:
        logits: ``(B, L, classes)``, or ``(B, classes)`` for one level.
        labels: ``(B,)``.
        smoothing: Share of each label that is spread over all classes.

    Returns:
        ``(B, L)``.

    >>> level_cross_entropy(torch.zeros(2, 3, 4), torch.tensor([0, 1])).shape
    torch.Size([2, 3])
    """
    logits = as_levels(logits)
    if labels.shape != logits.shape[:1]:
        raise ValueError(f"expected {len(logits)} labels for as many images, got shape {tuple(labels.shape)}")
    each = labels[:, None].expand(-1, logits.shape[1])
    return F.cross_entropy(logits.movedim(-1, 1), each, reduction="none", label_smoothing=smoothing)


def consistency_hinge(losses: Tensor, reduction: Reduction = "mean") -> Tensor:
    r"""The paper's consistency loss: what each level loses against the next coarser one.

    .. math:: \sum_{k \ge 1} \max(\ell_k - \ell_{k-1}, 0)

    Args:
        losses: ``(B, L)`` of :func:`level_cross_entropy`, coarse to fine.
        reduction: ``"mean"``: on the losses' means over the batch, as in the published code; ``"sample"``: on those
            of each image, then the mean over the batch.

    >>> losses = torch.tensor([[1.0, 2.0], [3.0, 1.0]])
    >>> consistency_hinge(losses).item(), consistency_hinge(losses, "sample").item()
    (0.0, 0.5)
    """
    if reduction not in get_args(Reduction):
        raise ValueError(f"unknown reduction {reduction!r}: choose one of {', '.join(get_args(Reduction))}")
    if reduction == "mean":
        return losses.mean(0).diff().clamp(min=0).sum()
    return losses.diff(dim=1).clamp(min=0).sum(1).mean()


def log_odds_hinge(logits: Tensor, labels: Tensor, margin: float = 0.5) -> Tensor:
    r"""A penalty on every pair of levels whose finer one is not ahead by a margin in log-odds of the true class.

    .. math::
        u_k = z_k[y] - \log \sum_{c \ne y} e^{z_k[c]}, \qquad
        \sum_{k \ge 1} \operatorname{mean}_{j < k} \max(u_j - u_k + m, 0)

    Log-odds do not saturate where losses of easy images are all near zero.

    Args:
        logits: ``(B, L, classes)``, coarse to fine.
        labels: ``(B,)``.
        margin: Lead that a level must have over every coarser one.

    Returns:
        The mean over the batch.

    >>> log_odds_hinge(torch.zeros(1, 2, 10), torch.tensor([3]), margin=0.5).item()
    0.5
    """
    logits = as_levels(logits)
    count = logits.shape[1]
    true = (labels[:, None] == torch.arange(logits.shape[-1], device=labels.device))[:, None]  # (B, 1, classes)
    others = logits.masked_fill(true, -torch.inf).logsumexp(-1)
    odds = logits.masked_fill(~true, 0).sum(-1) - others  # (B, L)
    # [j, k] of each image: how far level j is ahead of the finer level k
    ahead = (odds[:, :, None] - odds[:, None, :] + margin).clamp(min=0)
    coarser = torch.arange(count, device=odds.device)
    weight = torch.ones(count, count, dtype=odds.dtype, device=odds.device).triu(1) / coarser.clamp(min=1)
    return (ahead * weight).sum((1, 2)).mean()


def level_divergence(logits: Tensor) -> Tensor:
    r"""How far the prediction of each level is from that of the next coarser one.

    .. math:: \sum_{k \ge 1} \operatorname{KL}(p_{k-1} \,\|\, p_k), \qquad p_k = \mathrm{softmax}(\hat y[k])

    Only the finer one has a gradient: it shall keep what the coarser one holds possible. A finer level that is to be
    ahead for the true class, whichever that is, then takes from classes that are unlikely at both. This is for levels
    that know nearly the same: a level that knows far more than the coarser one has to, and may not, give up much.

    Args:
        logits: ``(B, L, classes)``, coarse to fine.

    Returns:
        The mean over the batch.

    >>> level_divergence(torch.tensor([[[0.0, 0.0], [0.0, 0.0]]])).item()
    0.0
    """
    predictions = as_levels(logits).log_softmax(-1)
    coarser, finer = predictions[:, :-1].detach(), predictions[:, 1:]
    return F.kl_div(finer, coarser, reduction="none", log_target=True).sum((1, 2)).mean()


def scale_loss(
    logits: Tensor,
    labels: Tensor,
    hinge: Hinge = "none",
    weight: float = 0.1,
    margin: float = 0.5,
    levels: LevelSum = "sum",
    follow: float = 0.0,
    smoothing: float = 0.0,
) -> Tensor:
    r"""What training minimises: cross entropy over the levels plus weighted penalties.

    .. math:: \sum_k \operatorname{mean}_b \ell_{b,k} + \lambda \cdot \text{hinge} + \lambda_f \cdot \text{divergence}

    Args:
        logits: ``(B, L, classes)``, or ``(B, classes)`` for one level.
        labels: ``(B,)``.
        hinge: The penalty; see :data:`Hinge`.
        weight: Weight of the penalty.
        margin: Margin of the penalty on log-odds.
        levels: ``"sum"``, or ``"mean"``: all of it divided by the number of levels.
        follow: Weight of :func:`level_divergence`.
        smoothing: Share of each label that is spread over all classes.

    >>> scale_loss(torch.zeros(1, 2, 1), torch.tensor([0]), hinge="batch").item()
    0.0
    """
    if hinge not in get_args(Hinge):
        raise ValueError(f"unknown hinge {hinge!r}: choose one of {', '.join(get_args(Hinge))}")
    if levels not in get_args(LevelSum):
        raise ValueError(f"levels must be one of {', '.join(get_args(LevelSum))}, got {levels!r}")
    losses = level_cross_entropy(logits, labels, smoothing)
    total = losses.mean(0).sum()
    if losses.shape[1] > 1 and follow > 0:
        total = total + follow * level_divergence(logits)
    if hinge == "pairs" and losses.shape[1] > 1:
        total = total + weight * log_odds_hinge(logits, labels, margin)
    elif hinge != "none" and losses.shape[1] > 1:
        total = total + weight * consistency_hinge(losses, "mean" if hinge == "batch" else "sample")
    return total if levels == "sum" else total / losses.shape[1]


def map_cross_entropy(maps: Tensor, shares: Tensor) -> Tensor:
    r"""Cross entropy at every sample of a map, with what each sample is in shares.

    .. math:: -\sum_{b, j, c} t_{bcj} \log \operatorname{softmax}(z)_{bcj} \Big/ \sum_{b, j, c} t_{bcj}

    Args:
        maps: Logits ``(B, classes, m, m)``.
        shares: ``(B, classes, m, m)``; where they add up to less than 1, the rest counts for nothing.

    >>> map_cross_entropy(torch.zeros(1, 2, 4, 4), torch.ones(1, 2, 4, 4) / 2).item()
    0.6931...
    """
    total: Tensor = -(shares * maps.log_softmax(1)).sum() / shares.sum().clamp(min=1e-6)
    return total


def dice_loss(maps: Tensor, shares: Tensor) -> Tensor:
    r"""How little the areas of the classes overlap with what they are to be, the mean over classes.

    .. math:: \operatorname{mean}_c \Big(1 - \frac{2 \sum p_c t_c + 1}{\sum p_c + \sum t_c + 1}\Big)

    with sums over all samples of the batch that count, so that a class of small area weighs as much as a large one.

    Args:
        maps: Logits ``(B, classes, m, m)``.
        shares: As for :func:`map_cross_entropy`.

    >>> sure = torch.tensor([[[[30.0]], [[-30.0]]]])
    >>> dice_loss(sure, torch.tensor([[[[1.0]], [[0.0]]]])).item()
    0.0
    """
    found = maps.softmax(1) * shares.sum(1, keepdim=True)
    over = (0, *range(2, maps.ndim))
    return (1 - (2 * (found * shares).sum(over) + 1) / (found.sum(over) + shares.sum(over) + 1)).mean()


def relative_error(found: Tensor, wanted: Tensor) -> Tensor:
    r"""Relative :math:`L^2` error of each field of a batch, ``(B,)``.

    .. math:: \lVert y_b - t_b \rVert / \lVert t_b \rVert

    >>> relative_error(torch.zeros(2, 1, 4, 4), torch.ones(2, 1, 4, 4))
    tensor([1., 1.])
    """
    difference = torch.linalg.vector_norm((found - wanted).flatten(1), dim=1)
    size = torch.linalg.vector_norm(wanted.flatten(1), dim=1)
    error: Tensor = difference / size.clamp(min=torch.finfo(wanted.dtype).tiny)
    return error
