"""Typed dataclasses from plain tables, and plain tables as TOML."""

from __future__ import annotations

import dataclasses
import tomllib
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin

from fourierscale.nn.checks import nearest
from fourierscale.training.errors import ConfigError

__all__ = ["build", "parse_value", "plain", "to_toml"]


def parse_value(text: str) -> Any:
    """A value as TOML writes it; anything else is a string, ``none`` is nothing.

    >>> parse_value("[1, 2]"), parse_value("true"), parse_value("adam"), parse_value("none")
    ([1, 2], True, 'adam', None)
    """
    if text.lower() in ("none", "null"):
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def build(cls: type, data: Any, where: str) -> Any:
    """A dataclass from plain data, field by field."""
    if not isinstance(data, Mapping):
        raise ConfigError(f"{where.rstrip('.')} is a table of settings, got {data!r}")
    hints = typing.get_type_hints(cls)
    values = {}
    for key, value in data.items():
        if key not in hints:
            what = f"field {where}{key}" if where else f"section {key!r}"
            raise ConfigError(f"no {what} in the config: {nearest(str(key), hints)}")
        hint = hints[key]
        if dataclasses.is_dataclass(hint):
            values[key] = build(typing.cast(type, hint), value, f"{where}{key}.")
        else:
            values[key] = _coerce(value, hint, f"{where}{key}")
    return cls(**values)


def _coerce(value: Any, hint: Any, name: str) -> Any:
    """A value as the type of its field; numbers may come as text, since YAML reads 1e-3 as text."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        inner = [part for part in get_args(hint) if part is not type(None)]
        return None if value is None else _coerce(value, inner[0], name)
    if value is None and (origin is Literal or hint is str):
        value = "none"  # a field that is never empty: the word itself, such as loss.hinge=none
    if origin is Literal:
        if str(value) in get_args(hint):
            return str(value)
        raise ConfigError(f"{name} must be one of {', '.join(map(str, get_args(hint)))}, got {value!r}")
    if origin is tuple:
        parts = get_args(hint)
        if isinstance(value, (list, tuple)) and len(value) == len(parts):
            return tuple(_coerce(item, part, name) for item, part in zip(value, parts, strict=True))
        raise ConfigError(f"{name} must be a list of {len(parts)} numbers, got {value!r}")
    if origin is dict:
        if isinstance(value, Mapping):
            return dict(value)
        raise ConfigError(f"{name} must be a table, got {value!r}")
    if hint is bool and isinstance(value, bool):
        return value
    if hint is str and isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return str(value)
    if hint in (int, float) and isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            number = float(value)
            if hint is float:
                return number
            if number.is_integer():
                return int(number)
        except (ValueError, OverflowError):
            pass
    words = {bool: "true or false", str: "text", int: "a whole number", float: "a number"}
    raise ConfigError(f"{name} must be {words.get(hint, hint)}, got {value!r}")


def plain(value: Any) -> Any:
    """Tuples and ranges as lists, all the way down."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list, range)):
        return [plain(item) for item in value]
    return value


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
