"""Tables become calls: unknown, missing and mistyped keys are named with their place, in one line."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from cold.errors import ColdError

Table = Mapping[str, Any]


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _all(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list | tuple) and all(map(fits, value))


def _is(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kind)


# What a TOML value must be where a parameter is annotated so; other annotations are checked by whoever takes them.
TYPES: dict[str, Callable[[Any], bool]] = {
    "int": _whole,
    "float": _number,
    "float | None": _number,
    "int | None": _whole,
    "str": _is(str),
    "bool": _is(bool),
    "Table": _is(dict),
    "Sequence[Table]": _all(_is(dict)),
    "Sequence[str]": _all(_is(str)),
    "tuple[str, ...]": _all(_is(str)),
    "Sequence[int]": _all(_whole),
    "Sequence[float]": _all(_number),
}
NAMES = {
    "int": "a whole number",
    "float": "a number",
    "float | None": "a number",
    "int | None": "a whole number",
    "str": "a text in quotes",
    "bool": "true or false",
    "Table": "a table",
    "Sequence[Table]": "a list of tables",
    "Sequence[str]": "a list of texts",
    "tuple[str, ...]": "a list of texts",
    "Sequence[int]": "a list of whole numbers",
    "Sequence[float]": "a list of numbers",
}


def call(target: Callable[..., Any], table: Table, place: str, **given: Any) -> Any:
    """target(**table, **given), with unknown, missing and mistyped keys named in one line."""
    parameters = inspect.signature(target).parameters
    allowed = [name for name in parameters if name not in given]
    for key in table:
        if key not in allowed:
            raise ColdError(f"{place}: there is no key {key!r}: use {', '.join(allowed) or 'none'}")
    for name in allowed:
        if parameters[name].default is inspect.Parameter.empty and name not in table:
            raise ColdError(f"{place}: key {name!r} is missing: add it")
    for key, value in table.items():
        fits = TYPES.get(str(parameters[key].annotation))
        if fits and not fits(value):
            raise ColdError(f"{place}: {key} is {value!r}: give {NAMES[str(parameters[key].annotation)]}")
    return target(**{**table, **given})


def take(table: Table, key: str, place: str) -> Any:
    if key not in table:
        raise ColdError(f"{place}: key {key!r} is missing: add it")
    return table[key]


def find_function(name: str, place: str) -> Callable[..., Any]:
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ColdError(f"{place}: {name!r} cannot be imported ({error}): is its folder on PYTHONPATH?") from error
    if not callable(found):
        raise ColdError(f"{place}: {name!r} is not a function")
    return found  # type: ignore[no-any-return]
