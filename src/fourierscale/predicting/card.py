"""A model card, written from what stands beside the weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fourierscale.data.errors import UnknownNameError
from fourierscale.data.protocols import find_protocol, folder_path
from fourierscale.data.registry import find_dataset
from fourierscale.models import Preprocessing

__all__ = ["write_card"]

HEAD = """---
library_name: fourierscale
pipeline_tag: image-classification
license: mit
tags: [fourierscale, scale-equivariance, pytorch]
---
"""
MEASURES = {"accuracy": "accuracy", "scale_con": "Scale-Con", "equi_err": "Equi-Err", "ece": "calibration error"}
EXPLAINED = (
    "Scale-Con is how often an image is classified at least as well as its downscaled versions, Equi-Err the relative "
    "squared difference between features of the downscaled image and downscaled features of the image."
)


def write_card(info: Mapping[str, Any], preprocessing: Preprocessing) -> str:
    """Markdown: what the model is, how it is used, what was measured, and which data it saw, with their licence."""
    name, metrics, data = str(info["model"]), info.get("metrics", {}), info.get("data", {})
    protocol = str(data.get("protocol", ""))
    parts = [
        HEAD,
        f"# {name}\n",
        f"An image classifier of [fourierscale](https://arxiv.org/abs/2311.02922): `{name}`.\n",
    ]
    parts.append(
        "```python\nfrom fourierscale import Classifier\n\n"
        'classifier = Classifier.from_pretrained("THIS REPOSITORY OR FOLDER")\n'
        'print(classifier("image.png").label)\n```\n'
    )
    parts.append(f"## Images\n\n{_images(preprocessing)}\n")
    rows = [(title, metrics.get(key), metrics.get(f"{key}_standard_error")) for key, title in MEASURES.items()]
    lines = [f"| {title} | {_figure(value, error)} |" for title, value, error in rows if value is not None]
    if lines:
        tested = f"{metrics['images']:,} test images of `{metrics['protocol']}`"
        parts.append(f"## Measured\n\nOn {tested}. {EXPLAINED}\n\n| | |\n| --- | --- |\n" + "\n".join(lines) + "\n")
    parts.append(f"## Data\n\n{_data(protocol, data)}\n")
    return "\n".join(parts)


def _images(prepare: Preprocessing) -> str:
    sizes = f"of {min(prepare.sizes)} to {max(prepare.sizes)} pixels a side" if prepare.sizes else "of any size"
    kind = "grey" if prepare.channels == 1 else "colour"
    ink = ", light ink on black (other pictures are turned round)" if prepare.polarity else ""
    classes = ", ".join(prepare.classes) or "numbers"
    return f"Square {kind} images {sizes}{ink}. Larger ones are downscaled on their way in. Classes: {classes}."


def _data(protocol: str, data: Mapping[str, Any]) -> str:
    if protocol and folder_path(protocol) is None:
        try:
            dataset = find_dataset(find_protocol(protocol).dataset)
        except UnknownNameError:
            return f"Trained on `{protocol}`, which this version does not know."
        licence = dataset.licence or "not known here: ask its authors"
        return f"Trained on {dataset.title} (`{protocol}`). Licence of the data: {licence}."
    return "Trained on a folder of images of the author. Licence of the data: **to be filled in by the author**."


def _figure(value: float, error: float | None) -> str:
    shown = f"{value:.1e}" if 0 < abs(value) < 1e-3 else f"{value:.4f}"
    return shown if error is None else f"{shown} ± {error:.4f}"
