"""Types of the fields of configs; plain tables from YAML and as TOML."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field, JsonValue, Strict

from fourierscale.training.errors import ConfigError

__all__ = [
    "WORD",
    "Count",
    "Flag",
    "Limit",
    "Positive",
    "Seed",
    "Settings",
    "Share",
    "Weight",
    "parse_value",
    "parse_yaml",
    "plain",
    "to_toml",
]

YAML_NODES = 10_000
"""Values that a YAML file may have once every alias is written out."""


def plain(value: Any) -> Any:
    """Tuples and ranges as lists, all the way down."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list, range)):
        return [plain(item) for item in value]
    return value


def _word(value: Any) -> Any:
    return "none" if value is None else str(value) if type(value) is int else value


WORD = BeforeValidator(_word)
"""Of a field that is never empty: nothing is the word ``none`` itself, and a number is a word too."""
Flag: TypeAlias = Annotated[bool, Strict()]
Count: TypeAlias = Annotated[int, Strict(), Field(ge=1, lt=2**31)]
Limit: TypeAlias = Annotated[int, Strict(), Field(ge=0, lt=2**31)]
Seed: TypeAlias = Annotated[int, Strict(), Field(ge=0, lt=2**32)]
Weight: TypeAlias = Annotated[float, Strict(), Field(ge=0, allow_inf_nan=False)]
Positive: TypeAlias = Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)]
Share: TypeAlias = Annotated[float, Strict(), Field(ge=0, lt=1, allow_inf_nan=False)]
Settings: TypeAlias = Annotated[dict[str, JsonValue], BeforeValidator(plain)]
"""Options of a model or an augmentation, which check them themselves."""


def parse_value(text: str) -> Any:
    """A value as TOML writes it; anything else is a string, ``none`` is nothing.

    >>> parse_value("[1, 2]"), parse_value("true"), parse_value("adam"), parse_value("none")
    ([1, 2], True, 'adam', None)
    """
    if text.lower() in ("none", "null"):
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except ValueError:  # no TOML, or a number of too many digits
        return text
    except RecursionError:
        raise ConfigError("a setting is nested too deeply") from None


def parse_yaml(text: str) -> Any:
    """What a YAML file says; numbers such as ``1e-3`` are numbers, as in TOML, and aliases cannot blow it up.

    >>> parse_yaml("{lr: 1e-3}")
    {'lr': 0.001}
    """
    import yaml  # type: ignore[import-untyped, unused-ignore]

    class Loader(yaml.SafeLoader):  # type: ignore[misc, unused-ignore]
        pass

    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"[-+]?\d[\d_]*(\.\d*)?[eE][-+]?\d+$"), [*"-+0123456789"]
    )

    @functools.cache
    def size(node: Any) -> int:
        pairs = isinstance(node, yaml.MappingNode)
        inside = [part for pair in node.value for part in pair] if pairs else node.value
        return 1 if isinstance(inside, str) else 1 + sum(map(size, inside))

    try:
        loader = Loader(text)
        node = loader.get_single_node()
        if node is None:
            return {}
        if size(node) > YAML_NODES:
            raise ConfigError(f"more than {YAML_NODES} values once its aliases are written out")
        return loader.construct_document(node)
    except RecursionError:
        raise ConfigError("not YAML: nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date that is none, a number of too many digits
        raise ConfigError(f"not YAML: {' '.join(str(error).split())}") from None


def to_toml(data: Mapping[str, Any]) -> str:
    """Tables of plain values as TOML; nothing (``None``) is left out.

    >>> print(to_toml({"a": {"b": 1, "c": [1.5, "x"], "d": {}}}), end="")
    [a]
    b = 1
    c = [1.5, "x"]
    """
    lines: list[str] = []

    def table(values: Mapping[str, Any], path: tuple[str, ...]) -> None:
        single = {key: value for key, value in values.items() if not isinstance(value, Mapping) and value is not None}
        if single and path:
            lines.extend(["", f"[{'.'.join(map(_key, path))}]"] if lines else [f"[{'.'.join(map(_key, path))}]"])
        lines.extend(f"{_key(key)} = {_value(value)}" for key, value in single.items())
        for key, value in values.items():
            if isinstance(value, Mapping):
                table(value, (*path, key))

    table(data, ())
    return "\n".join(lines) + "\n"


def _key(key: str) -> str:
    return key if key and all(c.isascii() and (c.isalnum() or c in "-_") for c in key) else _text(key)


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    raise ConfigError(f"cannot write {value!r} in a config file: expected text, numbers, lists and tables")
