"""Development examples for measurements, split by a hash of the id, and the few scores that measurements need."""

from __future__ import annotations

from pathlib import Path

from cold.evaluation.datasets import Item, in_split, read
from cold.text.problems import Example
from cold.text.words import met, words_of


def read_items(task: str, path: Path, tune: bool = False) -> list[Item]:
    """The whole entries of a file's tuning quarter, or of the rest."""
    found = [entry for entry in read(task, path) if isinstance(entry, Item)]
    return [item for item in found if in_split(item, "tune" if tune else "report")]


def coverage(text: str, example: Example) -> float:
    """100 x the share of the required words that stand in the text, in their exact forms."""
    return 100 * len(met(text, example.words)) / max(1, len(example.words))


def repetition(text: str) -> float:
    """Share of words that were there before."""
    found = words_of(text)
    return 1 - len(set(found)) / max(1, len(found))
