"""Bootstrap: a mean or a corpus score with its percentile interval, and whether two runs differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cold.errors import ColdError

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
FLIPS = 10_000
BLOCK = 1_000
SLOW = 5  # so many fewer where every flip is a corpus to score


class Estimate(NamedTuple):
    """A number and its interval."""

    value: float
    low: float
    high: float


class Paired(NamedTuple):
    """Mean of first - second, its bootstrap interval, and the two-sided p-value of a sign-flip permutation test."""

    difference: float
    low: float
    high: float
    p: float


def bootstrap_mean(values: Sequence[float], seed: int = 0, resamples: int = 1000, level: float = 0.95) -> Estimate:
    """The mean over examples, and its percentile interval when examples are drawn anew."""
    array = _finite(values)
    means = array[_draws(len(array), seed, resamples)].mean(axis=1)
    return _estimate(float(array.mean()), means, level)


def bootstrap_corpus(
    metric: Callable[[Indices], float], size: int, seed: int = 0, resamples: int = 1000, level: float = 0.95
) -> Estimate:
    """The same for a metric of a whole corpus of `size` examples, given as a function of their indices."""
    scores = _finite([metric(row) for row in _draws(size, seed, resamples)])
    return _estimate(float(metric(np.arange(size))), scores, level)


def compare(
    first: Mapping[str, float], second: Mapping[str, float], seed: int = 0, resamples: int = 1000, level: float = 0.95
) -> Paired:
    """Two runs over the same ids: if they do not differ, each difference is as likely with the other sign."""
    if first.keys() != second.keys():
        odd = min(first.keys() ^ second.keys())
        raise ColdError(f"the two runs do not have the same examples (id {odd!r} is in one only): compare common ids")
    differences = _finite([first[name] - second[name] for name in sorted(first)])
    return Paired(*bootstrap_mean(differences.tolist(), seed, resamples, level), _sign_flip(differences, seed))


def compare_corpus(
    metric: Callable[[Indices], float], size: int, seed: int = 0, resamples: int = 1000, level: float = 0.95
) -> Paired:
    """The same for a metric of a whole corpus: rows 0 .. size - 1 are the first run's, the next `size` the second's.

    If the runs do not differ, an example's two texts may as well be exchanged.
    """

    def difference(first: Indices, second: Indices) -> float:
        return metric(first) - metric(second)

    own = np.arange(size)
    seen = difference(own, own + size)
    drawn = _finite([difference(rows, rows + size) for rows in _draws(size, seed, resamples)])
    random = np.random.default_rng(seed)
    hits = 0
    for _ in range(FLIPS // SLOW):
        other = own + size * random.integers(2, size=size)
        hits += abs(difference(other, (other + size) % (2 * size))) >= abs(seen) * (1 - 1e-12)
    return Paired(*_estimate(seen, drawn, level), (hits + 1) / (FLIPS // SLOW + 1))


def _sign_flip(differences: Floats, seed: int) -> float:
    """How often random signs give a sum at least as far from zero; the observed signs count as one draw."""
    random = np.random.default_rng(seed)
    seen, total = abs(differences.sum()), np.abs(differences).sum()
    hits = 0
    for _ in range(FLIPS // BLOCK):  # all at once would take gigabytes
        kept = random.integers(2, size=(BLOCK, len(differences)), dtype=np.int8).astype(bool)
        sums = np.where(kept, differences, -differences).sum(axis=1)
        hits += int((np.abs(sums) >= seen - 1e-12 * total).sum())
    return (hits + 1) / (FLIPS + 1)


def _draws(size: int, seed: int, resamples: int) -> Indices:
    if size < 1:
        raise ColdError("there are no examples to draw from: give at least one")
    return np.random.default_rng(seed).integers(size, size=(resamples, size))


def _finite(values: Sequence[float]) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ColdError("a value is not a finite number (a metric that is not defined for a text?): leave it out")
    return array


def _estimate(value: float, resampled: Floats, level: float) -> Estimate:
    low, high = np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(value, float(low), float(high))
