"""Development examples for measurements, split by a hash of the id, and the few scores that measurements need."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from cold.evaluation.datasets import Item, in_split, read
from cold.text.problems import Example
from cold.text.words import met


def read_items(task: str, path: Path, tune: bool = False) -> list[Item]:
    """The whole entries of a file's tuning quarter, or of the rest."""
    found = [entry for entry in read(task, path) if isinstance(entry, Item)]
    return [item for item in found if in_split(item, "tune" if tune else "report")]


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def rouge_l(text: str, references: Sequence[str]) -> float:
    """100 x the best F1 of the longest common subsequence of words."""
    return 100 * max(_f1(words(text), words(reference)) for reference in references)


def coverage(text: str, example: Example) -> float:
    """100 x the share of the required words that stand in the text, in their exact forms."""
    return 100 * len(met(text, example.words)) / max(1, len(example.words))


def repetition(text: str) -> float:
    """Share of words that were there before."""
    found = words(text)
    return 1 - len(set(found)) / max(1, len(found))


def _f1(left: list[str], right: list[str]) -> float:
    row = [0] * (len(right) + 1)
    for word in left:
        before = row[:]
        for i, other in enumerate(right):
            row[i + 1] = before[i] + 1 if word == other else max(before[i + 1], row[i])
    return 2 * row[-1] / (len(left) + len(right)) if row[-1] else 0.0
