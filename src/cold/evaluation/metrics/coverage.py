"""Coverage: which of the required words stand in a text, in their exact forms and in any inflection."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import NamedTuple

import numpy as np

from cold.errors import ColdError
from cold.evaluation.metrics.given import library
from cold.text.words import met, words_of

GUESSED = ("NOUN", "VERB")  # for a word that no dictionary has


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
    """Coverage of the distinct required words or phrases; where none is required, all are met."""
    phrases = [phrase for phrase in dict.fromkeys(" ".join(words_of(word)) for word in required) if phrase]
    exact = len(met(text, phrases))
    words, bare = words_of(text), [word.removesuffix("'s") for word in words_of(text)]
    exact_times = sum(_times(words, words, [frozenset({part}) for part in phrase.split()]) for phrase in phrases)
    times = [_times(words, bare, [inflections(part) for part in phrase.split()]) for phrase in phrases]
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


@cache
def inflections(word: str) -> frozenset[str]:
    """The forms of all the lemmas that a word may have: hung, hang, hangs, hanging, hanged."""
    tool, word = library("lemminflect"), word.lower()
    lemmas = tool.getAllLemmas(word)
    if lemmas:
        groups = [tool.getAllInflections(lemma, kind) for kind, some in lemmas.items() for lemma in some]
    else:
        guesses = [(lemma, kind) for kind in GUESSED for lemma in tool.getAllLemmasOOV(word, kind)[kind]]
        groups = [tool.getAllInflectionsOOV(lemma, kind) for lemma, kind in guesses]
    forms = chain.from_iterable(chain.from_iterable(group.values()) for group in groups)
    return frozenset({word, *(form.lower() for form in forms)})


def _times(words: list[str], bare: list[str], phrase: list[frozenset[str]]) -> int:
    """How often a phrase stands among the words, each of its words in one of the given forms."""
    fits = [[word in forms or other in forms for word, other in zip(words, bare, strict=True)] for forms in phrase]
    starts = range(len(words) - len(phrase) + 1)
    return sum(all(fit[start + i] for i, fit in enumerate(fits)) for start in starts)
