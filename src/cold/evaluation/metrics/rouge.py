"""ROUGE-L: F1 of the longest common subsequence of words, F = 2PR / (P + R), as rouge-score without stems, 0..100."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cold.evaluation.metrics.given import check_references

WORD = re.compile(r"[a-z0-9]+")  # as rouge-score: letters outside ASCII cut a word


def rouge_l(hypothesis: str, references: Sequence[str]) -> float:
    """ROUGE-L F1 of a text, the best over its references."""
    check_references(references)
    words = _words(hypothesis)
    places = _places(words)
    return max(_f1(words, places, _words(reference)) for reference in references)


def _words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def _places(words: list[str]) -> dict[str, int]:
    """Where each word stands, as bits of one number."""
    found: dict[str, int] = {}
    for i, word in enumerate(words):
        found[word] = found.get(word, 0) | 1 << i
    return found


def _f1(words: list[str], places: dict[str, int], reference: list[str]) -> float:
    common = _common(len(words), places, reference)
    if not common:
        return 0.0
    precision, recall = common / len(words), common / len(reference)
    return 100 * (2 * precision * recall / (precision + recall))


def _common(size: int, places: dict[str, int], reference: list[str]) -> int:
    """Length of the longest common subsequence, one row of the table at a time in the bits of one number."""
    everywhere = (1 << size) - 1
    row = everywhere  # a zero bit is a place where the subsequence grows by one
    for word in reference:
        matches = row & places.get(word, 0)
        row = (row + matches | row - matches) & everywhere
    return size - row.bit_count()
