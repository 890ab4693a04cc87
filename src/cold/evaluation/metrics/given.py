"""What a metric is given: optional libraries, and at least one reference for each text."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from cold.errors import ColdError


class MissingLibraryError(ColdError):
    """A metric was asked for whose library is not installed."""


def library(name: str) -> Any:
    """An optional library, or an error that says how to get it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise MissingLibraryError(
            f"this metric needs {error.name}, which is not installed: pip install cold-decoding[eval]"
        ) from error


def check_references(references: Sequence[str]) -> None:
    """One text has a list of references, and at least one."""
    if isinstance(references, str):
        raise ColdError(
            f"references are a list of texts, but one text was given ({references[:40]!r}): put it in a list"
        )
    if not references:
        raise ColdError("a text has no references to be compared with: leave it out")


def check_corpus(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    """As many lists of references as texts."""
    if not hypotheses:
        raise ColdError("there are no texts to be scored: give at least one")
    if len(hypotheses) != len(references):
        raise ColdError(
            f"{len(hypotheses)} texts but {len(references)} lists of references: give one list for each text"
        )
    for some in references:
        check_references(some)
