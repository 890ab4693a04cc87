"""Coverage: which of the required words stand in a text, in their exact forms and in any inflection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cold.errors import ColdError
from cold.text.inflections import inflections
from cold.text.words import forms, met, words_of


class Coverage(NamedTuple):
    """One text: how many distinct words are required, how many are there, and how often."""

    size: int
    exact: int
    inflected: int
    exact_percent: float
    inflected_percent: float
    exact_times: int
    inflected_times: int


class MeanCoverage(NamedTuple):
    """The same, as means over texts."""

    size: float
    exact: float
    inflected: float
    exact_percent: float
    inflected_percent: float
    exact_times: float
    inflected_times: float


def coverage(text: str, required: Sequence[str]) -> Coverage:
    """Coverage of the distinct required words or phrases, `a|b` being either; where none is required, all are met."""
    wanted = [tuple(_bare(form) for form in forms(word)) for word in dict.fromkeys(required)]
    phrases = [phrase for phrase in dict.fromkeys(wanted) if any(phrase)]
    exact = len(met(text, ["|".join(phrase) for phrase in phrases]))
    words, bare = words_of(text), [word.removesuffix("'s") for word in words_of(text)]
    exact_times = sum(
        _times(words, words, [frozenset({part}) for part in form.split()]) for phrase in phrases for form in phrase
    )
    times = [
        max(_times(words, bare, [inflections(part) for part in form.split()]) for form in phrase) for phrase in phrases
    ]
    inflected = sum(count > 0 for count in times)
    share = 100 / len(phrases) if phrases else 0.0
    percents = (exact * share, inflected * share) if phrases else (100.0, 100.0)
    return Coverage(len(phrases), exact, inflected, *percents, exact_times, sum(times))


def mean_coverage(texts: Sequence[str], required: Sequence[Sequence[str]]) -> MeanCoverage:
    """Means over texts, each with its own set of required words."""
    if not texts or len(texts) != len(required):
        raise ColdError(f"{len(texts)} texts but {len(required)} sets of required words: give one set for each text")
    rows = [coverage(text, words) for text, words in zip(texts, required, strict=True)]
    return MeanCoverage(*np.array(rows, dtype=float).mean(axis=0).tolist())


def _bare(phrase: str) -> str:
    return " ".join(words_of(phrase))


def _times(words: list[str], bare: list[str], phrase: list[frozenset[str]]) -> int:
    """How often a phrase stands among the words, each of its words in one of the given forms."""
    fits = [[word in forms or other in forms for word, other in zip(words, bare, strict=True)] for forms in phrase]
    starts = range(len(words) - len(phrase) + 1)
    return sum(all(fit[start + i] for i, fit in enumerate(fits)) for start in starts)
