"""What a metric is given: at least one reference for each text."""

from __future__ import annotations

from collections.abc import Sequence

from cold.errors import ColdError


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
