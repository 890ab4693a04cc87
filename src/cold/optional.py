"""Libraries that only some users need: asked for when needed, with an error that says how to get one."""

from __future__ import annotations

import importlib
from typing import Any

from cold.errors import ColdError


class MissingLibraryError(ColdError):
    """Something was asked for whose library is not installed."""


def library(name: str) -> Any:
    """An optional library of the extra `eval`."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise MissingLibraryError(
            f"this needs {error.name}, which is not installed: pip install cold-decoding[eval]"
        ) from error
