"""ROUGE-L: F1 of the longest common subsequence of words, F = 2PR / (P + R), as rouge-score without stems, 0..100."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cold.evaluation.metrics.given import check_references
from cold.text.words import common

WORD = re.compile(r"[a-z0-9]+")  # as rouge-score: letters outside ASCII cut a word


def rouge_l(hypothesis: str, references: Sequence[str]) -> float:
    """ROUGE-L F1 of a text, the best over its references."""
    check_references(references)
    words = _words(hypothesis)
    return max(_f1(words, _words(reference)) for reference in references)


def _words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def _f1(words: list[str], reference: list[str]) -> float:
    both = common(words, reference)
    if not both:
        return 0.0
    precision, recall = both / len(words), both / len(reference)
    return 100 * (2 * precision * recall / (precision + recall))
