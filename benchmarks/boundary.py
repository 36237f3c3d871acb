"""What does each boundary do to equivariance, to the edges and to accuracy? Circular, mirror and canvas side by side.

    python benchmarks/boundary.py errors proportion leakage shift cost [--images FOLDER]
    python benchmarks/boundary.py accuracy --data digits --boundary mirror --seed 0
    python benchmarks/boundary.py picture

Each part replaces its own rows in results/bench/boundary.json. Natural images come from a folder of class folders;
without one, digits alone are measured. Nets of the parts in the first line have random weights.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import torch
from torch import Tensor

from fourierscale.data import ScaledDataset, ScaledSplits, load_protocol
from fourierscale.data.decode import decode_image
from fourierscale.data.folder import ImageFolder
from fourierscale.data.protocols import IMAGENET, Protocol
from fourierscale.data.splits import stratified_split
from fourierscale.functional import analyze, crop, downscale, synthesize
from fourierscale.models import create_model
from fourierscale.testing import relative_error
from fourierscale.training import load_config, train
from fourierscale.training.weights import versions

BOUNDARIES = ("circular", "mirror", "canvas:0.5:edge", "canvas:0.5:fade", "canvas:0.5:zero")
PADS = (0.125, 0.25, 0.5, 1.0)
ROOT = Path(__file__).parent
PICTURE = ROOT.parent / "docs" / "images" / "boundary.png"


def digits(count: int) -> tuple[Tensor, dict]:
    test = load_protocol("mnist-scale", offline=True).test
    x = (test.images[:count].float() / 255 - test.mean) / test.std
    return x, {"in_channels": 1, "resolutions": range(8, 29, 4)}


def natural(folder: Path, count: int) -> tuple[Tensor, dict]:
    paths = ImageFolder(folder).paths
    chosen = torch.randperm(len(paths), generator=torch.Generator().manual_seed(0))[:count].tolist()
    x = torch.stack([torch.from_numpy(decode_image(paths[i], colour="rgb", size=96)) for i in chosen]).float() / 255
    mean, std = (torch.tensor(IMAGENET[name]).view(-1, 1, 1) for name in ("mean", "std"))
    return (x - mean) / std, {"in_channels": 3, "resolutions": range(48, 97, 16)}


def net(options: dict, boundary: str, **more):
    torch.manual_seed(0)
    return create_model("scalenet-tiny", head="temperature", boundary=boundary, **{**options, **more}).eval()


@torch.inference_mode()
def both_errors(model, x: Tensor, resolutions, kind: str, boundary: str) -> dict:
    """Relative squared errors of features and logits, means over resolutions."""
    features, own = model.features(x), model.levels_of(tuple(x.shape[-2:]))
    logits = model.head(features)
    found = []
    for r in resolutions:
        small = downscale(x, r, kind, boundary=boundary)
        of_small, levels = model.features(small), model.levels_of((r, r))
        assert own[: len(levels)] == levels
        shrunk = crop(features, tuple(of_small.shape[-2:]))
        of_logits = model.head(of_small)[:, -1]
        found.append((relative_error(shrunk, of_small), relative_error(logits[:, len(levels) - 1], of_logits)))
    features_error, logits_error = (statistics.mean(column) for column in zip(*found, strict=True))
    return {"features": features_error, "logits": logits_error}


def errors(sets: dict) -> list[dict]:
    """Every net with every downscaling; then canvases of every pad and fill with their own."""
    rows = []
    for data, (x, options) in sets.items():
        below = list(options["resolutions"])[:-1]
        for boundary in BOUNDARIES:
            model = net(options, boundary)
            for kind, other in [("ideal", b) for b in BOUNDARIES] + [("bicubic", "circular")]:
                name = other if kind == "ideal" else kind
                row = {"data": data, "net": boundary, "downscaling": name}
                rows.append(row | both_errors(model, x, below, kind, other))
        for boundary in (f"canvas:{pad}:{fill}" for fill in ("edge", "fade", "zero") for pad in PADS):
            row = {"data": data, "net": boundary, "downscaling": boundary}
            rows.append(row | both_errors(net(options, boundary), x, below, "ideal", boundary))
    return rows


def proportion(sets: dict) -> list[dict]:
    """Coefficients on canvases whose sides are in proportion (64 of 96 pixels) and are not (60: 67.5 become 68)."""
    rows = []
    for data, (x, _) in sets.items():
        if data == "digits":  # this part and the next two are about edges, and those of digits are black
            continue
        for boundary in ("mirror", *(f"canvas:0.125:{fill}" for fill in ("edge", "fade", "zero"))):
            for r in (60, 64):
                small = analyze(downscale(x, r, boundary=boundary), boundary=boundary)
                error = relative_error(crop(analyze(x, boundary=boundary), r, boundary), small)
                rows.append({"data": data, "boundary": boundary, "resolution": r, "coefficients": error})
    return rows


@torch.inference_mode()
def leakage(sets: dict) -> list[dict]:
    """Change the right eighth of the image: which share of the features' change is in the left eighth?"""
    rows = []
    for data, (x, options) in sets.items():
        if data == "digits":
            continue
        n = x.shape[-1]
        changed = x.clone()
        changed[..., -n // 8 :] = x.roll(1, 0)[..., -n // 8 :]
        for norm in ("none", "instance"):
            for boundary in BOUNDARIES:
                model = net(options, boundary, norm=norm, grid="common")
                change = synthesize(model.features(changed) - model.features(x), n, boundary).square().mean((0, 1, 2))
                share = change[: n // 8].sum() / change.sum()
                rows.append({"data": data, "norm": norm, "net": boundary, "left_share": share.item()})
    return rows


@torch.inference_mode()
def shift(sets: dict) -> list[dict]:
    """Move a window over the image by an eighth of its side: do features move with it, inside and at the edges?"""
    rows = []
    for data, (x, options) in sets.items():
        if data == "digits":
            continue
        n, step = 64, 8
        windows = x[..., 16 : 16 + n, 8 : 8 + n], x[..., 16 : 16 + n, 8 + step : 8 + step + n]
        for boundary in BOUNDARIES:
            model = net(options | {"resolutions": [32, 48, 64]}, boundary, grid="common", norm="none")
            first, second = (synthesize(model.features(w), n, boundary) for w in windows)
            first, second = first[..., step:], second[..., :-step]  # the same places
            quarter = n // 4
            middle = [f[..., quarter:-quarter, quarter - step // 2 : -quarter + step // 2] for f in (first, second)]
            edge = (first[..., -4:], second[..., -4:])  # four pixels at what is the edge of the first window
            rows.append(
                {"data": data, "net": boundary, "middle": relative_error(*middle), "edge": relative_error(*edge)}
            )
    return rows


def cost(sets: dict) -> list[dict]:
    """A training step of the tiny net and levels of the paper's set."""
    rows = []
    x = torch.rand(64, 1, 28, 28)
    for boundary in (*BOUNDARIES[:3], "canvas:1:edge"):
        model = net({}, boundary).train()
        times = []
        for i in range(12):
            start = time.perf_counter()
            model(x).sum().backward()
            if i >= 3:
                times.append(1e3 * (time.perf_counter() - start))
        levels = len(create_model("scalenet-mnist", boundary=boundary).levels_of((28, 28)))
        rows.append({"net": boundary, "step_ms": statistics.median(times), "levels_8_to_28": levels})
    return rows


def natural_splits(folder: Path, boundary: str, side: int = 32) -> ScaledSplits:
    """Images of a folder at 16 to 32 pixels, 7,000 / 1,000 / 5,000 of them, downscaled with this boundary."""
    images = ImageFolder(folder)
    sizes = {"train": 7_000, "val": 1_000, "test": 5_000}
    resolutions, equivariance = tuple(range(side // 2, side + 1, 2)), tuple(range(side // 2, side + 1, 4))
    protocol = Protocol(
        "natural-32",
        "folder",
        tuple(sizes.values()),
        len(images),
        resolutions,
        equivariance,
        boundary=boundary,
        **IMAGENET,
    )
    pixels = images.load_all(side)
    parts = [
        ScaledDataset(pixels[i], images.labels[i], resolutions, boundary=boundary, **IMAGENET)
        for i in stratified_split(images.labels, sizes, 0).values()
    ]
    return ScaledSplits(*parts, protocol, "a folder", "", {}, images.classes)


def accuracy(data: str, boundary: str, seed: int, epochs: int, folder: Path | None) -> dict:
    """Train the tiny net and measure it, with its own boundary everywhere."""
    settings = ["train.progress=false", f"train.epochs={epochs}", f"train.seed={seed}", "eval.limit=5000"]
    config = load_config("tiny", [*settings, f"model.overrides.boundary={boundary}", "data.offline=true"])
    splits = None
    if data == "natural":
        splits = natural_splits(folder, boundary)
        config = config.replaced(["model.overrides.resolutions=[16, 20, 24, 28, 32]"])
    with tempfile.TemporaryDirectory() as run:
        metrics = train(config, Path(run) / "run", splits=splits)
    kept = ("accuracy", "accuracy_standard_error", "scale_con", "equi_err", "train_seconds", "epochs", "images")
    return {"data": data, "net": boundary, "seed": seed} | {name: metrics[name] for name in kept}


def scene(n: int) -> Tensor:
    """A drawn landscape whose four edges differ: sky, ground, a sun, a dark tower near the right edge."""
    row, column = torch.meshgrid(torch.arange(n) / n, torch.arange(n) / n, indexing="ij")
    x = torch.where(row < 0.62 + 0.06 * torch.sin(7 * column), 0.75 - 0.35 * row, 0.3 - 0.15 * column)
    sun, tower = (row - 0.22).square() + (column - 0.25).square() < 0.012, (column > 0.84) & (row > 0.15)
    return torch.where(tower, 0.05, torch.where(sun, 1.0, x))[None, None]


@torch.inference_mode()
def draw(path: Path) -> None:
    import matplotlib.pyplot as plt

    from fourierscale.functional import extend

    n = 64
    x = scene(n)
    changed = x.clone()
    changed[..., -n // 8 :] = 0.9 - x[..., -n // 8 :]
    figure, axes = plt.subplots(2, 3, figsize=(8.4, 5.6), layout="constrained")
    for column, boundary in enumerate(("circular", "mirror", "canvas")):
        whole = extend(x, boundary)[0, 0]
        shown = torch.cat([torch.cat([whole] * 3, 1)] * 3, 0)
        size, first = 2 * n, len(whole) - n // 2
        upper, lower = axes[:, column]
        upper.imshow(shown[first : first + size, first : first + size], cmap="gray", vmin=0, vmax=1)
        upper.add_patch(plt.Rectangle((n // 2 - 0.5,) * 2, n, n, fill=False, edgecolor="tab:red", linewidth=2))
        upper.set_title(f'boundary="{boundary}"')
        model = net({"in_channels": 1, "resolutions": [16, 32, 64]}, boundary, norm="none", grid="common")
        change = synthesize(model.features(changed) - model.features(x), n, boundary)[0].square().mean(0).sqrt()
        lower.imshow((change / change.max()).clamp(min=1e-3).log10(), cmap="magma", vmin=-3, vmax=0)
        lower.axvline(n - n // 8 - 0.5, color="white", linewidth=1, linestyle=":")
        for ax in (upper, lower):
            ax.set_xticks([])
            ax.set_yticks([])
    axes[0, 0].set_ylabel("what the net sees; red: the image")
    axes[1, 0].set_ylabel("change of the features when the\nright eighth changes (log, 3 decades)")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)
    print(f"wrote {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "parts", nargs="+", choices=("errors", "proportion", "leakage", "shift", "cost", "accuracy", "picture")
    )
    parser.add_argument("--images", type=Path, help="folder of class folders with natural images")
    parser.add_argument("--count", type=int, default=16, help="images for errors, leakage and shift")
    parser.add_argument("--data", choices=("digits", "natural"), default="digits", help="what accuracy is trained on")
    parser.add_argument("--boundary", default="circular", help="of accuracy")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--out", type=Path, default=ROOT.parent / "results" / "bench" / "boundary.json")
    args = parser.parse_args()
    if args.data == "natural" and args.images is None:
        parser.error("natural images need --images FOLDER")
    found = json.loads(args.out.read_text()) if args.out.is_file() else {}
    found["versions"] = {**versions(), "threads": torch.get_num_threads()}
    simple = {"errors": errors, "proportion": proportion, "leakage": leakage, "shift": shift, "cost": cost}
    if set(args.parts) & set(simple):
        sets = {"digits": digits(args.count)}
        if args.images is not None:
            sets["natural"] = natural(args.images, args.count)
    for part in args.parts:
        if part in simple:
            found[part] = simple[part](sets)
        elif part == "accuracy":
            row = accuracy(args.data, args.boundary, args.seed, args.epochs, args.images)
            same = ("data", "net", "seed")
            rest = [r for r in found.get(part, []) if any(r[key] != row[key] for key in same)]
            found[part] = sorted([*rest, row], key=lambda r: tuple(str(r[key]) for key in same))
        else:
            draw(PICTURE)
            continue
        for row in found[part]:
            print(part, *(f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}" for k, v in row.items()))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    lines = json.dumps(found, indent=1).replace("{\n   ", "{").replace(",\n   ", ", ").replace("\n  }", "}")
    args.out.write_text(lines + "\n")


if __name__ == "__main__":
    main()
