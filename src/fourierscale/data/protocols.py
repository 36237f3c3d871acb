"""The experiments' data, as data: which images, how many in each split, at which resolutions."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Literal, TypeAlias

from fourierscale.data.decode import Shape
from fourierscale.data.errors import UnknownNameError
from fourierscale.functional.bands import Boundary
from fourierscale.functional.resample import Kind
from fourierscale.nn.checks import nearest

__all__ = ["Protocol", "TaskName", "bare_name", "find_protocol", "folder_path", "list_protocols", "old_name"]

TaskName: TypeAlias = Literal["classification", "segmentation", "field"]
"""What is learned of images: their class, the class of every pixel, or the values of another field."""

OLD_PREFIX = "folder:"
MNIST_VAL = "8add65cf7ebccfb996e020cefec8cc3da89da78092e380e412ff16f7adb333d0"
MNIST_TEST = "8ea170ebcdcecc0b7f5835b52a158414b07307c88fe2ee0bea4c67ea62b04af7"


@dataclasses.dataclass(frozen=True)
class Protocol:
    """How a dataset becomes training, validation and test images at many resolutions.

    Args:
        name: What the user types.
        dataset: The dataset's name, or the folder.
        sizes: Images in training, validation and test.
        of: Out of how many images; where fewer (or more) are there, sizes change in proportion.
        resolutions: The resolutions of the data; each image has one of them.
        equivariance: The set R at which equivariance is enforced and measured.
        mean: Subtracted from each channel.
        std: Each channel is divided by it.
        kind: How images are downscaled.
        boundary: What lies beyond their edge then.
        train_size: If given, only so many of the training images are used, nested for one seed.
        train_resolution: If given, training and validation images all have this resolution (missing scales).
        part: If given, only this official part of the dataset is used.
        note: What a reader of its results must know.
        hashes: SHA-256 of the three index lists at seed 0, checked when all the images are there.
        shape: For a folder, how its images become square; each has then its own resolution, the highest of
            ``resolutions`` that it has. None: resolutions are dealt to images of one size.
        task: What is learned: the class of an image, that of every pixel, or another field.
        classes: Of the other tasks, names of the channels of the answer.
    """

    name: str
    dataset: str
    sizes: tuple[int, int, int]
    of: int
    resolutions: tuple[int, ...]
    equivariance: tuple[int, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    kind: Kind = "ideal"
    boundary: Boundary = "circular"
    train_size: int | None = None
    train_resolution: int | None = None
    part: str | None = None
    note: str = ""
    hashes: tuple[str, ...] = ()
    shape: Shape | None = None
    task: TaskName = "classification"
    classes: tuple[str, ...] = ()


MNIST_SCALE = Protocol(
    name="mnist-scale",
    dataset="mnist",
    sizes=(10_000, 2_000, 50_000),
    of=70_000,
    resolutions=tuple(range(8, 29)),
    equivariance=tuple(range(8, 29)),
    mean=(0.0607,),
    std=(0.2161,),
    note="the paper's main setting; all 50,000 test images count",
    hashes=("7ef514b6c82e263128c9d6fd168e4bffeed310ecbcf2d6f2a863dcb11f02e46f", MNIST_VAL, MNIST_TEST),
)


def _limited(size: int, train_hash: str) -> Protocol:
    note = f"{size:,} of the 10,000 training images, nested; validation and test as mnist-scale"
    hashes = (train_hash, MNIST_VAL, MNIST_TEST)
    return dataclasses.replace(MNIST_SCALE, name=f"mnist-scale-{size}", train_size=size, note=note, hashes=hashes)


STL10_SCALE = Protocol(
    name="stl10-scale",
    dataset="stl10",
    sizes=(7_000, 1_000, 5_000),
    of=13_000,
    resolutions=tuple(range(48, 97)),
    equivariance=tuple(range(48, 97, 8)),
    mean=(0.4467, 0.4398, 0.4066),
    std=(0.2603, 0.2566, 0.2713),
    note="resolutions to 96: the paper's 97 would be an upsampling of the 96-pixel images",
    hashes=(
        "ec89f17dded0dfa00d9006129f4c32a0efbae2340734369efb13f99c13d7cbf9",
        "9a18e8e38621e05ad6d75f30b3eedb3980b7c65576dd28a5ee26512676019ad2",
        "f6de460d16fa748e1845f1a9c6b20440b4bf786b2e40bdf4cfd8892a5797e015",
    ),
)
IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
IMAGENET_GREY = {"mean": (0.459,), "std": (0.226,)}
PETS = Protocol(
    name="pets",
    dataset="pets",
    sizes=(3_496, 184, 3_669),
    of=7_349,
    resolutions=(48, 68, 96),
    equivariance=(48, 68, 96),
    note="Oxford-IIIT pets, published split, centred squares of 96 pixels; pet and its border against the background",
    task="segmentation",
    classes=("background", "pet"),
    **IMAGENET,  # type: ignore[arg-type]
)
NAVIER_STOKES = Protocol(
    name="navier-stokes",
    dataset="navier-stokes",
    sizes=(1_000, 100, 200),
    of=1_300,
    resolutions=(32, 64, 128, 256),
    equivariance=(32, 64),
    mean=(0.0,),
    std=(1.0,),
    note="vorticity at the start to vorticity at time 10, viscosity 1e-3; trained on a grid of 64",
    task="field",
    classes=("vorticity",),
)

PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        MNIST_SCALE,
        dataclasses.replace(
            MNIST_SCALE,
            name="mnist-scale-missing",
            train_resolution=28,
            note="missing scales: training and validation see 28 x 28 alone, the test set has every resolution",
        ),
        _limited(5_000, "7274d04cf5d80731d5ae6dfad8a63f6e305da1a7dab2f19614f5b5dca514524c"),
        _limited(2_500, "3d5cb2cdb30cf6c923810a219dedca7a83cb4018b9ff4da100252b9c0abae972"),
        _limited(1_000, "5892b5d66f1ecc66f99d1d9714df2ded0b7de48ab6d78d4d665f8827e866e153"),
        dataclasses.replace(
            MNIST_SCALE, name="mnist-scale-gaussian", kind="gaussian", note="non-ideal: Gaussian low-pass"
        ),
        dataclasses.replace(
            MNIST_SCALE, name="mnist-scale-bicubic", kind="bicubic", note="non-ideal: antialiased bicubic"
        ),
        STL10_SCALE,
        dataclasses.replace(
            STL10_SCALE,
            name="stl10-scale-5k",
            sizes=(3_500, 500, 1_000),
            of=5_000,
            part="train",
            note="the 5,000 official training images alone: not comparable with the paper's table",
            hashes=(
                "12387e286db2bafeb862fea3763a59a1c83e2fdabc50d9b427177fa7f442eb14",
                "790645f993803427fc68d1bcf2b70daaf0930c43fd08a248fd302f6a6cf84456",
                "61909352f1fb7ea6425b83fcddafcb19febf0b0abf829ffbb72532684d1f1d1d",
            ),
        ),
        Protocol(
            name="imagenette-scale",
            dataset="imagenette",
            sizes=(7_000, 1_000, 5_000),
            of=13_394,
            resolutions=STL10_SCALE.resolutions,
            equivariance=STL10_SCALE.equivariance,
            note="Imagenette at 96 x 96 with the sizes of the paper's STL10-scale",
            hashes=(
                "49ccb141c16b41ba54e3731c4b749632cb5f64085bd482349c747c0ebb102ff2",
                "b2dd67a24dee7b8074977edb7386e0d03c66a1ef92d33b6baf49e56dda638d26",
                "7376b546d9c5378c5429263296717733b0e99e324583f3bd4adb62748c852b46",
            ),
            **IMAGENET,  # type: ignore[arg-type]
        ),
        PETS,
        dataclasses.replace(PETS, name="pets-24", resolutions=(24, 34, 48, 68, 96), equivariance=(24, 34, 48, 68, 96)),
        NAVIER_STOKES,
        dataclasses.replace(
            NAVIER_STOKES,
            name="navier-stokes-1e-4",
            note="vorticity at the start to vorticity at time 10, viscosity 1e-4; trained on a grid of 64",
        ),
    )
}


def list_protocols() -> tuple[Protocol, ...]:
    """Every protocol that has a name of its own; any folder of class folders makes another."""
    return tuple(PROTOCOLS.values())


def folder_path(name: str) -> Path | None:
    """The folder that a name of images stands for, None where it is that of a protocol, which wins.

    >>> folder_path("mnist-scale"), folder_path("./mnist-scale"), folder_path("photos")
    (None, PosixPath('mnist-scale'), PosixPath('photos'))
    """
    name = bare_name(name)
    return None if name in PROTOCOLS else Path(name).expanduser()


def bare_name(name: str) -> str:
    """A name of images as it is given today; until version 0.2 that of a folder was ``folder:PATH``.

    >>> bare_name("folder:photos"), bare_name("folder:mnist-scale"), bare_name("mnist-scale")
    ('photos', './mnist-scale', 'mnist-scale')
    """
    bare = name.removeprefix(OLD_PREFIX)
    return f"./{bare}" if bare != name and bare in PROTOCOLS else bare


def old_name(name: str) -> str:
    """What :func:`bare_name` undoes: the name until version 0.2, under which recipes are hashed.

    >>> old_name("photos"), old_name("./mnist-scale"), old_name("mnist-scale")
    ('folder:photos', 'folder:mnist-scale', 'mnist-scale')
    """
    if name in PROTOCOLS:
        return name
    return OLD_PREFIX + (name[2:] if name[2:] in PROTOCOLS else name)


def find_protocol(name: str) -> Protocol:
    """The protocol of this name.

    Raises:
        UnknownNameError: There is none; the message suggests the nearest name.

    >>> find_protocol("mnist-scale-missing").train_resolution
    28
    """
    if name not in PROTOCOLS:
        raise UnknownNameError(f"no protocol {name!r}, or no such folder: {nearest(name, PROTOCOLS)}")
    return PROTOCOLS[name]
