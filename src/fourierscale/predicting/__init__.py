"""From image files, pictures and arrays to answers: needs torch, numpy, Pillow and safetensors."""

from fourierscale.predicting.classifier import Classifier, Refused, each_image
from fourierscale.predicting.devices import find_device
from fourierscale.predicting.images import Invert, Prepared, prepare_image

__all__ = ["Classifier", "Invert", "Prepared", "Refused", "each_image", "find_device", "prepare_image"]
