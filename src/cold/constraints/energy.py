"""The energy E(y~) = -sum_i lambda_i f_i(y~): the sign turns here and nowhere else (Eq. 1)."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from cold.constraints.base import Constraint, Random
from cold.errors import ColdError
from cold.lm.candidates import Candidates
from cold.lm.context import Context, Reader, Reading, Wish
from cold.lm.lanes import Lanes
from cold.soft import SoftSequence

Memory = tuple[Candidates | None, ...]  # per context: what it remembers of the step before


class Term(NamedTuple):
    weight: float
    constraint: Constraint


class Evaluation(NamedTuple):
    """An energy at one soft sequence."""

    energy: Tensor  # [rows]
    scores: Tensor  # f_i, unweighted [terms, rows]
    memory: Memory
    parts: tuple[Tensor, ...]  # the same f_i, each with its own graph, for whoever wants one gradient alone


@dataclass(frozen=True, eq=False)
class Energy:
    """A weighted sum of constraints with unique names. Build it with `0.3 * a + 0.2 * b`."""

    terms: tuple[Term, ...]

    def __post_init__(self) -> None:
        for weight, constraint in self.terms:
            if not (weight >= 0 and weight < float("inf")):
                raise ColdError(
                    f"the weight of {constraint.name!r} is {weight}: weights are finite and at least 0; "
                    "to push away from something, turn the sign of its score"
                )
        names = self.names
        for name in names:
            if names.count(name) > 1:
                raise ColdError(f"two terms are called {name!r}: give one of them another name=")

    @property
    def names(self) -> list[str]:
        return [term.constraint.name for term in self.terms]

    @property
    def weights(self) -> list[float]:
        return [term.weight for term in self.terms]

    @property
    def contexts(self) -> list[Context]:
        """Each distinct context once, in order of first use."""
        return list(dict.fromkeys(c for term in self.terms for c in term.constraint.contexts))

    def __add__(self, other: Energy | Constraint) -> Energy:
        more = other if isinstance(other, Energy) else 1.0 * other
        return Energy(self.terms + more.terms)

    def __rmul__(self, factor: float) -> Energy:
        return Energy(tuple(Term(float(factor) * weight, c) for weight, c in self.terms))

    __mul__ = __rmul__

    def bind(self, rows: int, length: int) -> BoundEnergy:
        """Prepare for a batch: check every term, encode every prefix."""
        return BoundEnergy(self, rows, length)


class BoundEnergy:
    """An energy ready for soft sequences [rows, length, vocab]; reads each context once per call."""

    def __init__(self, energy: Energy, rows: int, length: int) -> None:
        if not energy.terms:
            raise ColdError("the energy has no terms: add at least one, as in 1.0 * Fluency(context)")
        counts = {c.examples for c in energy.contexts} | {t.constraint.examples for t in energy.terms}
        if len(counts - {1}) > 1:
            raise ColdError(f"parts of the energy are built for {sorted(counts)} examples: give all the same number")
        if rows % max(counts):
            raise ColdError(
                f"the energy has {max(counts)} examples, which does not divide {rows} rows: give each as many samples"
            )
        for term in energy.terms:
            term.constraint.check(rows, length)
        self.energy = energy
        self.names = energy.names
        self.readers: list[Reader] = [context.bind(rows, length) for context in energy.contexts]
        self.wishes = [_wish(energy, context) for context in energy.contexts]
        self.weights: Tensor | None = None
        self.lanes = Lanes(energy.contexts[0].lm.device if energy.contexts else torch.device("cpu"))

    def start(self, y: Tensor) -> Memory:
        """What the contexts remember before the first step."""
        return (None,) * len(self.readers)

    def __call__(self, y: Tensor, memory: Memory, random: Random) -> Evaluation:
        soft = SoftSequence(y)
        embeds = []
        for reader, wish, before in zip(self.readers, self.wishes, memory, strict=True):
            with nullcontext() if wish.slope else torch.no_grad():
                embeds.append(reader.embed(soft, before))
        reads = [partial(self._read, n, embeds[n]) for n in range(len(self.readers))]
        readings = {reader.context: found for reader, found in zip(self.readers, self.lanes(reads), strict=True)}
        parts = tuple(term.constraint.score(soft, readings, random) for term in self.energy.terms)
        scores = torch.stack(parts)
        if self.weights is None:  # made once: a copy from the host would wait for the device at every step
            self.weights = torch.tensor(self.energy.weights, dtype=scores.dtype, device=scores.device)
        remembered = tuple(reading.candidates for reading in readings.values())
        return Evaluation(-(self.weights @ scores), scores, remembered, parts)

    def _read(self, number: int, embeds: Tensor) -> Reading:
        wish = self.wishes[number]
        with nullcontext() if wish.slope else torch.no_grad():
            return self.readers[number].read_embeds(embeds, wish)


def _wish(energy: Energy, context: Context) -> Wish:
    """What any term wants of the context."""
    wishes = [term.constraint.wish for term in energy.terms if context in term.constraint.contexts]
    return Wish(*(any(wanted) for wanted in zip(*wishes, strict=True)))
