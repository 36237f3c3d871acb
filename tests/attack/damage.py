"""Ways to damage a file: bytes, text, values of a tree, members of an archive."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx

from tests.attack.frame import Case

CANARY = "code-was-run"
"""A file that appears where something unpickles, or runs, what it should only read."""


class Bomb:
    """Writes the canary when it is unpickled."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, str]]:
        return open, (CANARY, "w")


def bytes_of(case: Case, content: bytes) -> bytes:
    """A file with some of its bytes changed, cut off, repeated, moved or put in."""
    random, size = case.random, len(content)
    kind = case.choose(
        "damage", ["flips", "flips", "head", "cut", "insert", "zeros", "repeat", "swap", "tail", "empty"]
    )
    if kind == "empty" or not size:
        return b""
    if kind == "cut":
        return content[: case.whole("at", 0, size - 1)]
    if kind == "tail":
        return content + random.randbytes(case.whole("more", 1, 2000))
    if kind in ("flips", "head"):
        changed = bytearray(content)
        for _ in range(case.whole("bytes", 1, 16)):
            place = random.randrange(min(size, 64) if kind == "head" else size)
            changed[place] = random.choice([changed[place] ^ (1 << random.randrange(8)), 0, 255, random.randrange(256)])
        return bytes(changed)
    start = case.whole("at", 0, size - 1)
    stop = case.note("to", min(size, start + random.choice([1, 4, 64, 1024])))
    if kind == "insert":
        return content[:start] + random.randbytes(stop - start) + content[start:]
    if kind == "zeros":
        return content[:start] + bytes(stop - start) + content[stop:]
    if kind == "repeat":
        return content[:stop] + content[start:stop] * random.choice([1, 2, 50]) + content[stop:]
    other = random.randrange(size)
    return content[:start] + content[other : other + stop - start] + content[stop:]


def value(case: Case) -> Any:
    """A value that nobody expects, as JSON can hold it."""
    return case.random.choice(VALUES)


VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**400, 0.5, 1e308, 1e-308, -0.0),
    *(
        float("nan"),
        float("inf"),
        "",
        "x",
        "nan",
        "../../etc/passwd",
        "/dev/zero",
        "\0",
        "\ud83d\ude00",
        "[bold]",
        "%s",
    ),
    *("x" * 70_000, [], [[]], [0], [None], ["a"], [1e9, 1e9], {}, {"": {}}, {"a": 1}, [1] * 3000, 2**17, "mnist-scale"),
)


def tree_of(case: Case, tree: Any) -> Any:
    """A tree of dicts and lists with a few of its values replaced, moved or gone."""
    tree = json.loads(json.dumps(tree))
    for _ in range(case.whole("edits", 1, 3)):
        places = _places(tree)
        if not places:
            return value(case)
        parent, key, path = case.random.choice(places)
        edit = case.random.choice(["value", "value", "value", "gone", "name", "nested", "number"])
        case.note("place", f"{path} {edit}")
        if edit == "value":
            parent[key] = value(case)
        elif edit == "gone":
            del parent[key]
        elif edit == "name" and isinstance(parent, dict):
            parent[case.random.choice(["", "name", "x" * 300, f"{key} "])] = parent.pop(key)
        elif edit == "nested":
            deep = parent[key]
            for _ in range(case.random.choice([1, 5, 60])):
                deep = case.random.choice([[deep], {"a": deep}])
            parent[key] = deep
        elif isinstance(parent[key], int | float):
            parent[key] = case.random.choice([-parent[key], parent[key] + 1, 3 * parent[key], parent[key] * 1e9])
        case.note("value", parent.get(key, "gone") if isinstance(parent, dict) else "of a list")
    return tree


def _places(tree: Any, path: str = "") -> list[tuple[Any, Any, str]]:
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    found = []
    for key, below in pairs:
        found += [(tree, key, f"{path}/{key}"), *_places(below, f"{path}/{key}")]
    return found


def json_of(case: Case, content: bytes) -> bytes:
    """JSON with its values changed, nested too deeply, or no longer JSON."""
    kind = case.choose("damage", ["tree", "tree", "tree", "tree", "bytes", "deep", "digits"])
    if kind == "tree":
        return json.dumps(tree_of(case, json.loads(content))).encode()
    if kind == "deep":
        depth = case.choose("depth", [500, 5_000, 100_000])
        return case.random.choice([b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth])
    if kind == "digits":
        numbers = list(re.finditer(rb"(?<=[ \[])\d+", content))
        found = case.random.choice(numbers)
        return content[: found.start()] + b"9" * case.choose("digits", [400, 5_000]) + content[found.end() :]
    return bytes_of(case, content)


TOML = (
    *("9" * 400, "9" * 5_000, "2001-99-99", "2001-01-01", "07:32:00", "nan", "inf", "-1", "0", "1e400", '""', "[]"),
    *(
        "{}",
        "true",
        "[" * 3_000 + "]" * 3_000,
        "{a=" * 400 + "1" + "}" * 400,
        '"""',
        "'" + "x" * 70_000 + "'",
        "=",
        '"\\u0000"',
    ),
    *("[1, [2, [3]]]", '["a", 1]', "0x7fffffffffffffffffff", "1_000_000_000_000", '"/dev/zero"', "-0.0", "1e308"),
)
YAML = (
    *(value for value in TOML if "{a=" not in value),
    *("!!python/object/apply:os.system ['touch code-was-run']", "!!binary aGk=", "!!timestamp 2001-99-99", "&a [*a]"),
    *("{{", "- - - 1", "? x", "|", "[" * 3_000, "*nowhere", "0o777777777777777777777", "!!set {a, b}", "!!float x"),
)
ALIASES = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 9)}]\n" for number in range(1, 10)
)
"""Nine lines of YAML that stand for a billion values."""


def config_of(case: Case, content: bytes, yaml: bool) -> bytes:
    """A config with a line changed, gone, twice, or of another kind."""
    lines = content.decode().splitlines()
    kinds = ["value", "value", "value", "value", "value", "name", "gone", "twice", "section", "bytes"]
    kind = case.choose("damage", [*kinds, "bomb", "list"] if yaml else kinds)
    if kind == "bytes":
        return bytes_of(case, content)
    if kind == "list":
        return b"- 1\n- 2\n"
    if kind == "bomb":
        indented = "".join(f"    {line}\n" for line in ALIASES.splitlines())
        whole = f"model:\n  name: scalenet-tiny\n  overrides:\n{indented}"
        return case.random.choice([whole, ALIASES, ALIASES.replace("a9:", "model:")]).encode()
    for _ in range(case.whole("edits", 1, 2)):
        sign = ":" if yaml else "="
        place = case.random.choice([number for number, line in enumerate(lines) if sign in line] or [0])
        name, _, _ = lines[place].partition(sign)
        case.note("line", lines[place])
        if kind == "value":
            lines[place] = f"{name}{sign} {case.random.choice(YAML if yaml else TOML)}"
        elif kind == "name":
            lines[place] = lines[place].replace(
                name.strip(), case.random.choice(["x", "", "a.b", '"\\u0000"', "x" * 500])
            )
        elif kind == "gone":
            del lines[place]
        elif kind == "twice":
            lines.insert(place, lines[place])
        else:
            lines.insert(
                place, case.random.choice(["[model.overrides.x]", "[[model]]", "[train]", "model: 3", "x:", "\t"])
            )
        case.note("now", lines[min(place, len(lines) - 1)] if lines else "")
        lines = lines or [""]
    return "\n".join(lines).encode()


def setting(case: Case) -> str:
    """A field of a config as ``--set`` takes it."""
    names = [
        "train.epochs",
        "optim.lr",
        "optim.betas",
        "model.overrides.widths",
        "model.overrides.head",
        "data.protocol",
    ]
    more = ["model", "", "data.size", "a.b.c", "model.overrides", "train.epochs.x", "loss.hinge", "train.devices"]
    name, sign = case.random.choice(names + more), case.random.choice(["=", "=", "=", "=", "", "=="])
    return case.note("setting", name + sign + case.random.choice([*TOML, "[" * 100_000, "x", "\ud83d\ude00"]))


def archive_of(case: Case, content: bytes) -> bytes:
    """A zip archive with a member damaged, gone, twice, or replaced by a pickle that runs code."""
    kind = case.choose("damage", ["bytes", "member", "member", "json", "pickle", "pickle", "gone", "more", "twice"])
    if kind == "bytes":
        return bytes_of(case, content)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    bomb = pickle.dumps(Bomb(), case.random.randint(0, 4))
    names = [name for name, _ in members]
    if kind == "json":
        names = [name for name in names if name.endswith(".json")] or names
    target = case.choose("member", names)
    changed = []
    for name, held in members:
        if name == target and kind == "gone":
            continue
        if name == target and kind == "member":
            held = bytes_of(case, held)
        elif name == target and kind == "pickle":
            held = bomb
        elif name == target and kind == "json":
            try:
                held = (
                    json.dumps(tree_of(case, json.loads(held)))
                    .replace('"use_pickle": false', '"use_pickle": true')
                    .encode()
                )
            except ValueError:
                held = bytes_of(case, held)
        changed.append((name, held))
    if kind == "twice":
        changed.append((target, bomb))
    if kind == "more":
        root = names[0].split("/")[0]
        for name in (
            "data/sample_inputs/model.pt",
            "data.pkl",
            "../../escaped",
            "data/weights/model_weights_config.json",
        ):
            changed.append((f"{root}/{name}", bomb))
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of two members with one name
        for name, held in changed:
            archive.writestr(zipfile.ZipInfo(name), held)
    return written.getvalue()


def weights_of(case: Case, content: bytes) -> bytes:
    """A safetensors file with its header changed: sizes, types, places."""
    kind = case.choose("damage", ["bytes", "header", "header", "length", "deep"])
    if kind == "bytes":
        return bytes_of(case, content)
    (size,) = struct.unpack("<Q", content[:8])
    header, rest = content[8 : 8 + size], content[8 + size :]
    if kind == "length":
        return (
            struct.pack("<Q", case.choose("length", [0, 1, size - 1, size + 1, 2**32, 2**63, 2**64 - 1])) + content[8:]
        )
    deep = kind == "deep"
    header = b"[" * 100_000 if deep else json.dumps(tree_of(case, json.loads(header))).encode()
    return struct.pack("<Q", len(header)) + header + rest


def onnx_of(case: Case, content: bytes) -> bytes:
    """An ONNX file with its description or its graph changed."""
    kind = case.choose("damage", ["bytes", "description", "description", "description", "graph"])
    if kind == "bytes":
        return bytes_of(case, content)
    model = onnx.load_from_string(content)
    if kind == "description":
        entry = case.random.choice(list(model.metadata_props))
        case.note("entry", entry.key)
        edit = case.random.choice(["tree", "tree", "tree", "value", "gone", "name"])
        if edit == "gone":
            model.metadata_props.remove(entry)
        elif edit == "name":
            entry.key = "x"
        else:
            try:
                tree = json.loads(entry.value)
            except ValueError:
                tree = entry.value
            entry.value = _text(
                tree_of(case, tree) if edit == "tree" and isinstance(tree, dict | list) else value(case)
            )
        return model.SerializeToString()
    graph = model.graph
    edit = case.choose(
        "edit", ["inputs", "outputs", "nodes", "output twice", "weights", "names", "shape", "type", "external"]
    )
    if edit in ("inputs", "outputs", "nodes"):
        held = {"inputs": graph.input, "outputs": graph.output, "nodes": graph.node}[edit]
        del held[case.random.randrange(len(held)) :]
    elif edit == "output twice":
        graph.output.append(graph.output[0])
    elif edit == "weights" and graph.initializer:
        graph.initializer.remove(case.random.choice(list(graph.initializer)))
    elif edit == "names":
        graph.input[0].name = case.random.choice(["", "x", graph.output[0].name])
    elif edit == "external" and graph.initializer:
        weight = case.random.choice(list(graph.initializer))
        weight.data_location = onnx.TensorProto.EXTERNAL
        place = case.random.choice(["/etc/passwd", "../../picture.png", "/dev/zero"])
        weight.external_data.append(onnx.StringStringEntryProto(key="location", value=place))
    elif edit == "type":
        graph.input[0].type.tensor_type.elem_type = case.random.choice([0, 3, 7, 8, 9, 10, 11, 16, 99])
    else:
        shape = graph.input[0].type.tensor_type.shape
        for dim in shape.dim:
            if case.random.random() < 0.5:
                dim.dim_value = case.random.choice([0, 1, 3, 7, -1, 2**40])
        if case.random.random() < 0.3:
            del shape.dim[case.random.randrange(4) :]
    return model.SerializeToString()


def _text(tree: Any) -> str:
    return tree if isinstance(tree, str) and tree < "\ud800" else json.dumps(tree)


def place_of(case: Case, path: Path) -> None:
    """Put something that is no file where a file is expected."""
    kind = case.choose("instead", ["pipe", "folder", "itself", "zeros", "dangling", "unreadable"])
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "itself":
        path.symlink_to(path.name)
    elif kind == "zeros":
        path.symlink_to("/dev/zero")
    elif kind == "dangling":
        path.symlink_to("nowhere")
    else:
        path.write_bytes(b"x")
        path.chmod(0)
