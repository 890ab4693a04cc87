"""CIDEr-D: clipped cosine of tf-idf n-grams, n = 1..4, times exp(-d^2 / 2 sigma^2) for a difference of d in length."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple

from cold.evaluation.metrics.given import check_corpus
from cold.text.words import words_of

ORDERS = (1, 2, 3, 4)
SIGMA = 6.0  # the CIDEr-D paper's, section 6
SCALE = 10.0

Grams = Counter[tuple[str, ...]]


class Cider(NamedTuple):
    """The corpus score and that of each text; 10 is the maximum."""

    mean: float
    scores: list[float]


class Vector(NamedTuple):
    """Tf-idf weights of one text's n-grams, their norm for each n, and its number of words."""

    weights: dict[tuple[str, ...], float]
    norms: list[float]
    length: int


def cider(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    tokenize: Callable[[str], list[str]] = words_of,
) -> Cider:
    """CIDEr-D. An n-gram's document is one text's references, so a corpus of one text scores 0."""
    check_corpus(hypotheses, references)
    texts = [_grams(tokenize(text)) for text in hypotheses]
    targets = [[_grams(tokenize(text)) for text in some] for some in references]
    frequency: Grams = Counter(chain.from_iterable(set(chain.from_iterable(some)) for some in targets))
    scores = [_score(text, some, frequency, len(texts)) for text, some in zip(texts, targets, strict=True)]
    return Cider(math.fsum(scores) / len(scores), scores)


def _grams(words: list[str]) -> Grams:
    return Counter(tuple(words[i : i + n]) for n in ORDERS for i in range(len(words) - n + 1))


def _score(text: Grams, references: Sequence[Grams], frequency: Grams, corpus: int) -> float:
    mine = _vector(text, frequency, corpus)
    return SCALE * math.fsum(_alike(mine, _vector(some, frequency, corpus)) for some in references) / len(references)


def _vector(grams: Grams, frequency: Grams, corpus: int) -> Vector:
    weights = {gram: count * math.log(corpus / max(1, frequency[gram])) for gram, count in grams.items()}
    squares = dict.fromkeys(ORDERS, 0.0)
    for gram, weight in weights.items():
        squares[len(gram)] += weight**2
    length = sum(count for gram, count in grams.items() if len(gram) == 1)
    return Vector(weights, [math.sqrt(square) for square in squares.values()], length)


def _alike(text: Vector, reference: Vector) -> float:
    products = dict.fromkeys(ORDERS, 0.0)
    for gram in text.weights.keys() & reference.weights.keys():
        products[len(gram)] += min(text.weights[gram], reference.weights[gram]) * reference.weights[gram]
    norms = (mine * other for mine, other in zip(text.norms, reference.norms, strict=True))
    cosines = [product / norm if norm else 0.0 for product, norm in zip(products.values(), norms, strict=True)]
    gap = text.length - reference.length
    return sum(cosines) / len(ORDERS) * math.exp(-(gap**2) / (2 * SIGMA**2))
