"""Development examples for measurements, split by a hash of the id, and the few scores that measurements need."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import NamedTuple

from cold.tasks import examples
from cold.text.problems import Example
from cold.text.words import met


class Item(NamedTuple):
    key: str
    example: Example
    references: list[str]


def tuning(key: str) -> bool:
    """A quarter of every file is for tuning; what is reported comes from the rest."""
    return int(hashlib.sha256(key.encode()).hexdigest(), 16) % 4 == 0


def read_items(task: str, path: Path, tune: bool = False) -> list[Item]:
    """aNLG's JSON (abductive) or CommonGen's JSON lines (lexical), as published."""
    text = path.read_text(encoding="utf-8")
    if task == "abductive":
        pairs = json.loads(text).items()
        items = [Item(k, examples.abductive(x["obs1"], x["obs2"]), x["gold_labels"]) for k, x in pairs]
    else:
        sets = [json.loads(line) for line in text.splitlines() if line.strip()]
        items = [Item(x["concept_set"], examples.lexical(x["concept_set"].split("#")), x["scene"]) for x in sets]
    return [item for item in items if tuning(item.key) == tune]


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def rouge_l(text: str, references: list[str]) -> float:
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
