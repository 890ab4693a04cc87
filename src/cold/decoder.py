"""The pipeline: initialize -> Langevin steps -> discretize -> complete -> select (Algorithm 1 and section 3.4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from cold.errors import ColdError
from cold.sampling.diagnostics import Info
from cold.sampling.langevin import Sampler, State
from cold.sampling.noise import Noise
from cold.sampling.run import run
from cold.soft import SoftSequence
from cold.text.complete import Complete
from cold.text.discretize import Discretize
from cold.text.initialize import Initialize
from cold.text.problems import Problems
from cold.text.reading import Likelihood, read
from cold.text.select import Rule


class Score(NamedTuple):
    """One term of a sample: its weight, and f of the soft sequence and of the final text."""

    weight: float
    soft: float
    text: float


class Sample(NamedTuple):
    text: str
    energy: float  # of the final text
    soft_energy: float  # of the soft sequence it came from
    terms: dict[str, Score]
    selection: dict[str, float]  # what the selection rule looked at


class Decoding(NamedTuple):
    """One example's samples, in the order they were drawn; `order` ranks them, best first."""

    samples: list[Sample]
    order: list[int]
    trace: Sequence[Info]  # of the whole batch
    rows: range = range(0)  # which of it are this example's

    @property
    def best(self) -> Sample:
        return self.samples[self.order[0]]

    @property
    def text(self) -> str:
        return self.best.text


@dataclass(frozen=True)
class Decoder:
    """The stages are plain callables: swapping one never touches another."""

    initialize: Initialize
    sampler: Sampler
    steps: int
    discretize: Discretize
    complete: Complete
    rule: Rule
    weights: Mapping[str, float] | None = None  # for the rule: of terms, of `own` and of `right`; none: the energy's
    watch: int = 0  # every so many steps the chain is looked at closely, at a price; see sampling/run.py

    def __call__(self, problems: Problems, seeds: Sequence[int]) -> list[Decoding]:
        """Decode rows = examples x samples, one seed per row, an example's samples side by side."""
        y, trace = torch.empty(0), []
        for state, info in self.chain(problems, seeds):
            y = state.y
            trace.append(info)
        return self.finish(problems, y, seeds, trace)

    def chain(self, problems: Problems, seeds: Sequence[int]) -> Iterator[tuple[State, Info]]:
        """The Langevin chain, step by step: whoever drives it may look, draw a bar or stop early."""
        problems = problems.walked
        y = self.initialize(problems, seeds)
        energy = problems.energy.bind(len(seeds), problems.length)
        yield from run(self.sampler, y, energy, seeds, self.steps, self.watch)

    def finish(self, problems: Problems, y: Tensor, seeds: Sequence[int], trace: list[Info]) -> list[Decoding]:
        """From a soft sequence, finished or not, to ranked texts."""
        texts = self.complete(problems, self.discretize(problems, problems.whole(y)))
        return self.judge(problems, texts, seeds, _evaluate(problems.walked, y, seeds), trace)

    def judge(
        self,
        problems: Problems,
        texts: Sequence[str],
        seeds: Sequence[int],
        soft: Sequence[Sequence[float]] | None = None,
        trace: Sequence[Info] = (),
    ) -> list[Decoding]:
        """Texts, ours or another decoder's, with their energies, ranked; `soft`: the terms of what they came from."""
        hard = score_texts(problems, texts, seeds)
        judged = self._judged(problems, texts, hard)
        soft = soft or [[float("nan")] * len(problems.energy.terms)] * len(texts)
        samples = len(seeds) // problems.story.examples
        decodings = []
        for number, ranking in enumerate(self.rule(problems.lm, problems.examples, texts, judged)):
            rows = range(number * samples, (number + 1) * samples)
            energies = [_energy(problems, hard[row]) for row in rows]
            found = [
                Sample(
                    texts[row],
                    energies[i],
                    _energy(problems, soft[row]),
                    _terms(problems, soft[row], hard[row]),
                    ranking.scores[i],
                )
                for i, row in enumerate(rows)
            ]
            decodings.append(Decoding(found, ranking.order, trace, rows))
        return decodings

    def _judged(self, problems: Problems, texts: Sequence[str], hard: Sequence[Sequence[float]]) -> list[float]:
        """The energies that the rule sees: to choose a text is not to sample it, so its weights may be others.

        The fluency term asks how much of the LM's probability a soft token holds; of a text one rather asks how likely
        it is, which is what `own` (log p(y | left)) and `right` (log p(right | left, y)) say, in the mean over tokens.
        """
        if self.weights is None:
            return [_energy(problems, scores) for scores in hard]
        asked = [(name, weight) for name, weight in self.weights.items() if weight]
        samples = len(texts) // problems.story.examples
        index = [row // samples for row in range(len(texts))]
        likely = any(name in Likelihood._fields for name, _ in asked)
        seen = (
            read(problems.story, index, problems.story.y_ids(texts)) if likely else [Likelihood(0.0, 0.0)] * len(texts)
        )
        known = [dict(zip(problems.energy.names, row, strict=True)) for row in hard]
        return [
            -sum(weight * (terms | reading._asdict()).get(name, 0.0) for name, weight in asked)
            for terms, reading in zip(known, seen, strict=True)
        ]


def score_texts(problems: Problems, texts: Sequence[str], seeds: Sequence[int]) -> list[list[float]]:
    """f of each final text, seen as an almost one-hot soft sequence [rows][terms]; texts of one length together.

    An energy wants as many rows of every example: the few that miss are filled up, and no more positions are looked at
    together than the chain has, for which there is room.
    """
    lm, ids = problems.lm, problems.story.y_ids(texts)
    samples = len(texts) // problems.story.examples
    found: list[list[float]] = [[float("nan")] * len(problems.energy.terms)] * len(texts)
    for length in sorted({len(row) for row in ids} - {0}):
        first = range(0, len(ids), samples)
        alike = [[row for row in range(start, start + samples) if len(ids[row]) == length] for start in first]
        some = max(1, samples * problems.length // length)
        for begin in range(0, max(map(len, alike)), some):
            few = [rows[begin : begin + some] for rows in alike]
            most = max(map(len, few))
            places = [place for rows in few for place in [*rows, *[None] * (most - len(rows))]]
            batch = [[0] * length if row is None else ids[row] for row in places]
            noise = [0 if row is None else seeds[row] for row in places]
            try:
                scores = _evaluate(problems, SoftSequence.of_ids(batch, lm.vocab, lm.device).logits, noise)
            except ColdError:  # too short for one of the constraints
                break
            for row, score in zip(places, scores, strict=True):
                if row is not None:
                    found[row] = score
    return found


@torch.no_grad()
def _evaluate(problems: Problems, y: Tensor, seeds: Sequence[int]) -> list[list[float]]:
    bound = problems.energy.bind(y.shape[0], y.shape[1])
    scores: list[list[float]] = bound(y, bound.start(y), Noise(seeds, -1, y.device)).scores.T.tolist()
    return scores


def _energy(problems: Problems, scores: Sequence[float]) -> float:
    return -sum(weight * score for weight, score in zip(problems.energy.weights, scores, strict=True))


def _terms(problems: Problems, soft: Sequence[float], hard: Sequence[float]) -> dict[str, Score]:
    energy = problems.energy
    return {n: Score(w, s, h) for n, w, s, h in zip(energy.names, energy.weights, soft, hard, strict=True)}
