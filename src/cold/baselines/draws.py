"""Chance for a chain: an index as often as its weight says, and a token of a blend, (1 - wide) candidates + wide q."""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Protocol

import torch
from torch import Tensor

NEVER = -math.inf


@dataclass(frozen=True, eq=False)
class Nearby:
    """q(token | left, right) of the whole vocabulary, as logs in float64 where the LM is, and its `best` tokens.

    `known`: what was asked for of these logs, brought over for many rows at once; any other waits for the device.
    """

    log_probs: Tensor
    best: tuple[int, ...]
    known: Mapping[int, float] = field(default_factory=dict)

    def log(self, token: int) -> float:
        found = self.known.get(token)
        return float(self.log_probs[token]) if found is None else found


@dataclass(frozen=True, eq=False)
class Blend:
    """(1 - wide) among(token) + wide q(token): a few candidates with probabilities of their own, and any token."""

    near: Nearby
    among: Mapping[int, float]
    wide: float = 1.0

    def log(self, token: int, log_prob: float | None = None) -> float:
        """How likely it is drawn; `log_prob`: what q says of it, if known already."""
        chance = (1 - self.wide) * self.among.get(token, 0.0)
        if self.wide:
            chance += self.wide * math.exp(self.near.log(token) if log_prob is None else log_prob)
        return math.log(chance) if chance > 0 else NEVER

    def dense(self) -> list[float]:
        """Of every token: for small vocabularies."""
        probs: list[float] = (self.wide * self.near.log_probs.exp()).tolist()
        for token, chance in self.among.items():
            probs[token] += (1 - self.wide) * chance
        return probs


class Draw(Protocol):
    """The draws of one row."""

    def __call__(self, weights: Sequence[float]) -> int:
        """An index, as often as its weight says."""

    def one_of(self, size: int) -> int:
        """Any of so many, with the same chance."""

    def pick(self, blend: Blend) -> int | float:
        """A token; or, if it is not one of the candidates, how far along q it stands, from 0 to 1 (see `along`)."""


class Seeded:
    """Draws that depend on a seed alone."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)

    def __call__(self, weights: Sequence[float]) -> int:
        return _index(weights, self.source.random())

    def one_of(self, size: int) -> int:
        return self.source.randrange(size)

    def pick(self, blend: Blend) -> int | float:
        at, share = self.source.random(), 1 - blend.wide
        if at >= share:
            return (at - share) / blend.wide
        return list(blend.among)[_index(list(blend.among.values()), at / share)]


def _index(weights: Sequence[float], at: float) -> int:
    edges = list(accumulate(weights))
    below = min(at * edges[-1], math.nextafter(edges[-1], 0.0))
    return bisect_right(edges, below)  # right: never an index without weight


def along(log_probs: Tensor, at: Sequence[float]) -> list[tuple[int, float]]:
    """So far along each row of q [rows, vocab]: the token that stands there, and its log-probability.

    Where the LM is: only the answers come over.
    """
    edges = log_probs.exp().cumsum(1)
    last = edges[:, -1:].contiguous()
    below = torch.tensor(at, dtype=edges.dtype, device=edges.device)[:, None] * last
    tokens = torch.searchsorted(edges, torch.minimum(below, last.nextafter(torch.zeros_like(last))), right=True)
    logs = log_probs.gather(1, tokens)
    return list(zip(tokens[:, 0].tolist(), logs[:, 0].tolist(), strict=True))
