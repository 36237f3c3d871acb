"""Networks: the paper's and those it compares with, by name, with weights."""

from fourierscale.models.answer import Answer
from fourierscale.models.classifier import ScaleClassifier, ScaleHead
from fourierscale.models.contract import ImageModel, as_image_model
from fourierscale.models.cost import Cost, model_cost
from fourierscale.models.fno import FNO
from fourierscale.models.layers import ExactNet, LayerConfig
from fourierscale.models.maps import MapModel, register_factory
from fourierscale.models.preprocessing import Preprocessing
from fourierscale.models.registry import (
    ModelInfo,
    create_model,
    list_models,
    list_pretrained,
    load_pretrained,
    model_info,
    pretrained_info,
    register,
)
from fourierscale.models.resnet import PerLevelClassifier, ResidualNet, residual_classifier
from fourierscale.models.saved import WeightsError, load_model, load_trained, read_info, save_model
from fourierscale.models.scalenet import ScaleNet
from fourierscale.models.scaleresnet import ScaleResNet
from fourierscale.models.transfer import transfer_weights
from fourierscale.models.unet import UNet

__all__ = [
    "FNO",
    "Answer",
    "Cost",
    "ExactNet",
    "ImageModel",
    "LayerConfig",
    "MapModel",
    "ModelInfo",
    "PerLevelClassifier",
    "Preprocessing",
    "ResidualNet",
    "ScaleClassifier",
    "ScaleHead",
    "ScaleNet",
    "ScaleResNet",
    "UNet",
    "WeightsError",
    "as_image_model",
    "create_model",
    "list_models",
    "list_pretrained",
    "load_model",
    "load_pretrained",
    "load_trained",
    "model_cost",
    "model_info",
    "pretrained_info",
    "read_info",
    "register",
    "register_factory",
    "residual_classifier",
    "save_model",
    "transfer_weights",
]
