"""Classifiers on a hub of models, through the mixin of ``huggingface_hub``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fourierscale.models.saved import INFO, WEIGHTS

if TYPE_CHECKING:
    from fourierscale.predicting.classifier import Classifier

__all__ = ["download", "upload"]


def download(name: str | os.PathLike[str], **options: Any) -> Path:
    """The folder of a model: itself if it is one, else that into which the hub's files came; nothing is unpickled.

    Args:
        name: A folder, or the id of a repository, such as ``"user/digits"``.
        options: Of ``huggingface_hub``: ``revision``, ``token``, ``cache_dir``, ``force_download``,
            ``local_files_only``.
    """
    folder = Path(name).expanduser()
    if folder.exists():
        return folder
    found = _hub_class().from_pretrained(str(name), **options)
    return Path(found.folder)


def upload(classifier: Classifier, repository: str, **options: Any) -> str:
    """Push a classifier's files and card; gives the address of the commit."""
    return str(_hub_class()(classifier=classifier).push_to_hub(repository, **options))


def _hub_class() -> Any:
    """What the mixin needs, defined when it is first used: the package need not be there."""
    try:
        from huggingface_hub import ModelHubMixin, hf_hub_download
    except ImportError:
        raise ImportError("the hub needs huggingface_hub: pip install 'fourierscale[hub]'") from None

    class OnHub(ModelHubMixin, library_name="fourierscale"):  # type: ignore[misc,call-arg,unused-ignore]
        """A classifier, or the folder into which one was downloaded."""

        def __init__(self, classifier: Any = None, folder: str = "") -> None:
            self.classifier, self.folder = classifier, folder

        def _save_pretrained(self, save_directory: Path) -> None:
            self.classifier.save_pretrained(save_directory)

        @classmethod
        def _from_pretrained(cls, *, model_id: str, **options: Any) -> Any:
            known = ("revision", "cache_dir", "force_download", "local_files_only", "token")
            given = {name: value for name, value in options.items() if name in known}
            paths = [Path(hf_hub_download(model_id, name, **given)) for name in (WEIGHTS, INFO)]
            return cls(folder=str(paths[0].parent))

    return OnHub
