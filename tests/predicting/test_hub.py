import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from fourierscale.models import Preprocessing, create_model, load_model, read_info
from fourierscale.predicting import Classifier
from fourierscale.predicting.card import write_card

INK = np.zeros((28, 28), dtype=np.uint8)
INK[4:24, 13:16] = 255


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return Classifier("cnn-small")


def test_what_is_saved_is_opened_again_without_a_hub(
    classifier: Classifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    folder = classifier.save_pretrained(tmp_path / "digits")
    assert {path.name for path in folder.iterdir()} == {"model.safetensors", "model.json", "config.json", "README.md"}
    again = Classifier.from_pretrained(folder, invert="no")
    assert again.invert == "no"
    assert again(INK).probability == classifier(INK).probability
    assert load_model(folder).preprocessing == classifier.preprocessing
    with pytest.raises(ImportError, match=r"pip install 'fourierscale\[hub\]'"):
        Classifier.from_pretrained("user/digits")


def test_a_model_without_a_description_is_not_saved(tmp_path: Path) -> None:
    plain = Classifier(create_model("cnn-small"), preprocessing=Preprocessing())
    with pytest.raises(ValueError, match="only a model with its description can be saved"):
        plain.save_pretrained(tmp_path)


class Hub:
    """A hub of models in a folder, behind the few functions that the mixin calls."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, token: str | None = None) -> "Hub":
        return self

    def create_repo(self, repo_id: str, private: bool | None, exist_ok: bool) -> Any:
        (self.root / repo_id).mkdir(parents=True, exist_ok=exist_ok)
        self.calls.append(("create_repo", {"private": private}))
        return type("Repository", (), {"repo_id": repo_id})

    def upload_folder(self, repo_id: str, folder_path: Path, commit_message: str, **options: Any) -> str:
        shutil.copytree(folder_path, self.root / repo_id, dirs_exist_ok=True)
        return f"https://hub/{repo_id}: {commit_message}"

    def hf_hub_download(self, repo_id: str, filename: str, **options: Any) -> str:
        self.calls.append((filename, options))
        return str(self.root / repo_id / filename)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    pytest.importorskip("huggingface_hub", reason="the extra hub is not installed")
    stub = Hub(tmp_path / "hub")
    monkeypatch.setattr("huggingface_hub.hub_mixin.HfApi", stub)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", stub.hf_hub_download)
    monkeypatch.setattr("huggingface_hub.hub_mixin.hf_hub_download", stub.hf_hub_download)
    return stub


def test_a_classifier_goes_to_a_hub_and_comes_back(classifier: Classifier, hub: Hub) -> None:
    where = classifier.push_to_hub("user/digits", private=True, commit_message="first")
    assert where == "https://hub/user/digits: first"
    assert hub.calls[0] == ("create_repo", {"private": True})
    files = {path.name for path in (hub.root / "user/digits").iterdir()}
    assert files == {"model.safetensors", "model.json", "config.json", "README.md"}  # nothing that is unpickled
    again = Classifier.from_pretrained("user/digits", hub={"revision": "v1"}, device="cpu")
    assert again(INK).probability == classifier(INK).probability
    fetched = {name: options["revision"] for name, options in hub.calls if name.startswith("model.")}
    assert fetched == {"model.safetensors": "v1", "model.json": "v1"}


def test_the_card_tells_figures_data_and_licence(classifier: Classifier, tmp_path: Path) -> None:
    card = (classifier.save_pretrained(tmp_path) / "README.md").read_text()
    head = yaml.safe_load(card.split("---")[1])
    assert head["pipeline_tag"] == "image-classification"
    metrics = read_info(tmp_path)["metrics"]
    assert f"| accuracy | {metrics['accuracy']:.4f} ± {metrics['accuracy_standard_error']:.4f} |" in card
    assert f"{metrics['images']:,} test images of `mnist-scale`" in card
    assert "MNIST handwritten digits" in card
    assert "Licence of the data: CC BY-SA 3.0" in card
    assert json.loads((tmp_path / "config.json").read_text())["library_name"] == "fourierscale"


def test_the_card_of_a_folder_asks_for_the_licence() -> None:
    info = {"model": "scalenet-folder", "data": {"protocol": "./photos"}}
    card = write_card(info, Preprocessing(mean=(0.5,) * 3, std=(0.5,) * 3, classes=("cat", "dog")))
    assert "to be filled in by the author" in card
    assert "Classes: cat, dog" in card
    assert "Measured" not in card
