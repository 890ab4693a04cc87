"""Repetition: whether a text stutters, how many different n-grams texts have, and how long they are."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cold.errors import ColdError
from cold.text.sentences import has_loop
from cold.text.words import words_of


def has_repeated_ngram(text: str, n: int = 3) -> bool:
    """Whether some n words in a row come twice, in any letter case."""
    _check(n)
    return has_loop(text, n)


def distinct_n(texts: Sequence[str], n: int) -> float:
    """Distinct n-grams / all n-grams over a list of texts, 0..1. NaN where no text is n words long."""
    _check(n)
    every = [words_of(text) for text in texts]
    grams = [tuple(words[i : i + n]) for words in every for i in range(len(words) - n + 1)]
    return len(set(grams)) / len(grams) if grams else math.nan


def length(text: str) -> int:
    """Number of words."""
    return len(words_of(text))


def _check(n: int) -> None:
    if n < 1:
        raise ColdError(f"an n-gram of {n} words was asked for: n is at least 1")
