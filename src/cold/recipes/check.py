"""Tables become calls: unknown, missing and mistyped keys are named with their place, in one line."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from cold.errors import ColdError

Table = Mapping[str, Any]
PLAIN = {"int": (int,), "float": (int, float), "str": (str,), "bool": (bool,), "float | None": (int, float)}


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
        expected = PLAIN.get(str(parameters[key].annotation))
        if expected and (not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected)):
            raise ColdError(f"{place}: {key} is {value!r}: give a value of type {parameters[key].annotation}")
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
