"""Networks: the paper's and those it compares with, by name, with weights."""

from fourierscale.models.classifier import ScaleClassifier, ScaleHead
from fourierscale.models.cost import Cost, model_cost
from fourierscale.models.registry import (
    ModelInfo,
    create_model,
    list_models,
    load_pretrained,
    model_info,
    pretrained_info,
    register,
)
from fourierscale.models.scalenet import ScaleNet

__all__ = [
    "Cost",
    "ModelInfo",
    "ScaleClassifier",
    "ScaleHead",
    "ScaleNet",
    "create_model",
    "list_models",
    "load_pretrained",
    "model_cost",
    "model_info",
    "pretrained_info",
    "register",
]
