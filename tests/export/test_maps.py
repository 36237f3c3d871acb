"""Models that give maps, as ONNX files of one size."""

from pathlib import Path

import pytest
import torch

from fourierscale.export import ExportError, export_onnx
from fourierscale.export.classifier import OnnxClassifier
from fourierscale.models import Preprocessing, create_model


@pytest.mark.parametrize("exact", [True, False])
def test_a_file_gives_the_maps_of_the_model(tmp_path: Path, exact: bool) -> None:
    torch.manual_seed(0)
    model = create_model("unet", widths=(4, 6), resolutions=(8, 12, 16), exact=exact).eval()
    model.preprocessing = Preprocessing(mean=(0.5,) * 3, std=(0.25,) * 3, sizes=(8, 12, 16), classes=("ground", "disc"))
    report = export_onnx(model, tmp_path / "maps.onnx", [16], raw=True, batches=())
    assert report.difference < 1e-4
    x = torch.rand(2, 3, 16, 16)
    with torch.inference_mode():
        expected = model(model.preprocessing(x))
    torch.testing.assert_close(OnnxClassifier(tmp_path / "maps.onnx")(x), expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(ExportError, match="maps are exported for images of one size, got 2"):
        export_onnx(model, tmp_path / "other.onnx", [8, 16])
    assert not (tmp_path / "other.onnx").exists()
