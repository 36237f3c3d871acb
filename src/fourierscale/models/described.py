"""What files say about themselves, checked against the types that the library has for it.

Configs, ``model.json`` and the metadata of ONNX files come from outside: anything may be in them. Whoever reads them
asks :func:`checked` for a dataclass, and gets one whose fields have their types, or one sentence on the first that has
not. Needs pydantic, which comes with each extra that reads files.
"""

from __future__ import annotations

import json
import re
import reprlib
import typing
from collections.abc import Iterable
from typing import Any, TypeVar

from fourierscale.nn.checks import nearest

__all__ = ["DescriptionError", "checked", "read_json"]

T = TypeVar("T")
WORDS = {
    "bool_type": "true or false",
    "dataclass_type": "a table of settings",
    "dict_type": "a table",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_type": "a whole number",
    "invalid-json-value": "text, a number, a list or a table",
    "missing": "there",
    "string_type": "text",
    "tuple_type": "a list",
}
"""What a field must be where pydantic says it in words of its own."""
MOST_NAMED = 4  # parts of the name of a field that a message shows


class DescriptionError(ValueError):
    """A description that cannot be; its text is one sentence for the user."""


def read_json(text: str | bytes) -> dict[str, Any]:
    """A description in JSON.

    Raises:
        DescriptionError: It is no JSON, or no table.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise DescriptionError("not JSON") from None
    if not isinstance(data, dict):
        raise DescriptionError("expected a table")
    return data


def checked(cls: type[T], data: Any) -> T:
    """A dataclass from plain tables.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Point:
    ...     x: int
    >>> checked(Point, {"x": 3})
    Point(x=3)
    >>> checked(Point, {"x": 0.5})
    Traceback (most recent call last):
    fourierscale.models.described.DescriptionError: x must be a whole number, got 0.5

    Raises:
        DescriptionError: A field that does not exist, with the nearest name, or a value of another type.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(cls).validate_python(data)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
    except RecursionError:
        raise DescriptionError("tables or lists are nested too deeply") from None
    except OverflowError:
        raise DescriptionError("a number is too large") from None
    *path, name = [str(part) for part in fault["loc"][:MOST_NAMED]] or ["the description"]
    where, kind, got = ".".join([*path, name]), fault["type"], reprlib.repr(fault["input"])
    if kind == "unexpected_keyword_argument":
        what = f"field {where}" if path else f"section {name!r}"
        raise DescriptionError(f"no {what}: {nearest(name, _fields(cls, path))}")
    if kind == "value_error":  # what a dataclass says of itself
        raise DescriptionError(str(fault["ctx"]["error"]))
    told = re.split(r", (?:got|unable)", fault["msg"].removeprefix("Input should be "))[0]
    raise DescriptionError(f"{where} must be {WORDS.get(kind, told)}, got {got}")


def _fields(cls: Any, path: list[str]) -> Iterable[str]:
    """Names of the fields of the table at a path."""
    for part in path:
        cls = typing.get_type_hints(cls)[part]
    return typing.get_type_hints(cls)
