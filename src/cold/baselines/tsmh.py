"""TSMH (Zhang et al. 2020): Metropolis-Hastings with a tree search over edits, pi(y) ~ P(y) beta^violations(y)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import torch
from torch import Tensor

from cold.baselines.cgmh import best_text, check_room, log, sentences_of
from cold.baselines.metropolis import (
    EXACT,
    NEVER,
    Around,
    Draw,
    Heuristic,
    Nearby,
    Proposal,
    State,
    Steps,
    one_of,
    run,
    seeded,
    stay,
    walk,
)
from cold.baselines.oracle import Sentences
from cold.baselines.proposals import MaskedModel
from cold.lm.model import LanguageModel
from cold.text.problems import Problems

ANY = 0  # what is put in: any token; or a given word, by its own id, which is below 0

RELEASED = Heuristic(threshold=0.1)  # the published code's: refuse what is not a tenth as probable


class Edit(NamedTuple):
    """At one place: take the token behind it out, put something in, both (replace) or neither (keep)."""

    takes: bool
    puts: int | None  # a word's id, ANY or nothing

    @property
    def grows(self) -> int:
        return (self.puts is not None) - self.takes


KEEP = Edit(False, None)
Template = tuple[Edit, ...]


class Tree(NamedTuple):
    """All templates for some places, as the edits of each place, and their weights: one axis per place."""

    edits: list[list[Edit]]
    weights: Tensor

    def draw(self, draw: Draw) -> Template:
        index = torch.unravel_index(torch.tensor(draw(self.weights.flatten())), self.weights.shape)
        return tuple(row[int(i)] for row, i in zip(self.edits, index, strict=True))

    def share(self, template: Template) -> float:
        """How likely it is drawn."""
        index = tuple(row.index(edit) for row, edit in zip(self.edits, template, strict=True))
        return float(self.weights[index] / self.weights.sum())


@dataclass(frozen=True)
class TreeSearch:
    """Draw some places, search all edits there, take a template with few violations, fill it from left to right.

    The published proposal fills every template and draws one of the sentences by P; the exact probability of going
    back would need all fillings that might have been drawn, so the code leaves it out. This one can be undone:
    places uniform, a template by its weight `slack`^violations (uniform among the fewest, others seldom: without them
    no move could ever undo a mended violation), tokens by their known probability. Going back means the mirrored
    places and template, in a search of its own, filled in its own order with the tokens that were there.
    """

    words: int  # how many must appear
    longest: int
    places: int = 3
    slack: float = 1e-3
    wide: float = 0.05

    def propose(self, state: State, draw: Draw) -> Steps[Proposal]:
        choices = list(combinations(range(len(state) + 1), self.places))
        if not choices:
            return stay(state)
        at = choices[one_of(len(choices), draw)]
        tree = self.search(state, at)
        if not tree.weights.any():
            return stay(state)
        template = tree.draw(draw)
        new, filled = yield from self._fill(state, at, template, draw)
        back_at, back = mirror(state, at, template)
        taken = [state[g] for g, edit in zip(at, template, strict=True) if edit.takes]
        _, refilled = yield from self._fill(new, back_at, back, _dictated([t for t in taken if t >= 0]))
        again = self.search(new, back_at)
        forward = filled + log(tree.share(template)) - math.log(len(choices))
        backward = refilled + log(again.share(back)) - math.log(math.comb(len(new) + 1, self.places))
        return Proposal(new, forward, backward)

    def search(self, state: State, at: Sequence[int]) -> Tree:
        """Every template that fits the length and can be undone, by its violations."""
        words = range(-1, -self.words - 1, -1)
        edits = [self._edits(state, g, after - g) for g, after in zip(at, [*at[1:], len(state) + 2], strict=True)]
        surplus = torch.tensor([state.count(word) - 1 for word in words], dtype=torch.long)
        size = torch.tensor(len(state))
        for n, row in enumerate(edits):
            axis = [len(row) if n == other else 1 for other in range(len(at))]
            changes = [[(e.puts == w) - (e.takes and state[at[n]] == w) for w in words] for e in row]
            surplus = surplus + torch.tensor(changes, dtype=torch.long).view(*axis, len(words))
            size = size + torch.tensor([edit.grows for edit in row]).view(axis)
        count = surplus.abs().sum(-1)
        fits = (size + 1 >= self.places) & (size <= self.longest)
        fits[(0,) * len(at)] = False  # all kept
        fewest = count[fits].min() if fits.any() else 0
        return Tree(edits, fits * torch.tensor(self.slack, dtype=torch.float64) ** (count - fewest))

    def _edits(self, state: State, at: int, room: int) -> list[Edit]:
        """What can be done at a place. `room`: how far the next place is; taking out all of it would join the two."""
        fillings = [ANY, *range(-1, -self.words - 1, -1)]
        found = [KEEP, *(Edit(False, filling) for filling in fillings)]
        if at < len(state):
            found += [Edit(True, filling) for filling in fillings if filling == ANY or filling != state[at]]
            found += [Edit(True, None)] if room > 1 else []
        return found

    def _fill(self, state: State, at: Sequence[int], template: Template, draw: Draw) -> Steps[tuple[State, float]]:
        """The sentence that comes of it, and the log-probability of its drawn tokens.

        A token is drawn between what is written so far and what was behind it before the edits.
        """
        done: State = ()
        read, total = 0, 0.0
        for g, edit in zip(at, template, strict=True):
            done, read = done + state[read:g], g + edit.takes
            if edit.puts == ANY:
                near = yield Around(done, state[read:])
                probs = blend(near, self.wide)
                token = draw(probs)
                total += log(probs[token])
                done = (*done, token)
            elif edit.puts is not None:
                done = (*done, edit.puts)
        return done + state[read:], total


def mirror(state: State, at: Sequence[int], template: Template) -> tuple[tuple[int, ...], Template]:
    """The places and the template that undo it."""
    places, edits, shift = [], [], 0
    for g, edit in zip(at, template, strict=True):
        places.append(g + shift)
        edits.append(Edit(edit.puts is not None, min(state[g], ANY) if edit.takes else None))
        shift += edit.grows
    return tuple(places), tuple(edits)


def blend(near: Nearby, wide: float) -> Tensor:
    """The candidates by their probability, and with the share `wide` any token: what is there can be drawn again."""
    probs = near.log_probs.exp()
    among = torch.zeros_like(probs)
    among[list(near.best)] = probs[list(near.best)]
    return (1 - wide) * among / among.sum() + wide * probs


def violations(state: State, words: int) -> int:
    """sum over the words of |how often it is there - 1|."""
    return sum(abs(state.count(-word - 1) - 1) for word in range(words))


def _dictated(tokens: Sequence[int]) -> Draw:
    known = iter(tokens)
    return lambda _: next(known)


@dataclass(frozen=True, eq=False)
class Constrained:
    """pi(y) ~ P(y) beta^violations(y); a word that must appear once is no token for a gap."""

    world: Sentences
    log_beta: float

    def near(self, rows: Sequence[int], asked: Sequence[Around]) -> list[Nearby]:
        found = []
        for row, near in zip(rows, self.world.near(rows, asked), strict=True):
            alone = {ids[0] for ids in self._runs(row) if len(ids) == 1}
            log_probs = near.log_probs.index_fill(0, torch.tensor(sorted(alone), dtype=torch.long), NEVER)
            found.append(Nearby(log_probs.log_softmax(0), tuple(i for i in near.best if i not in alone)))
        return found

    def score(self, rows: Sequence[int], states: Sequence[State]) -> list[float]:
        penalties = [violations(s, len(self._runs(row))) for row, s in zip(rows, states, strict=True)]
        fluent = self.world.score(rows, states)
        return [score + self.log_beta * count for score, count in zip(fluent, penalties, strict=True)]

    def _runs(self, row: int) -> tuple[State, ...]:
        return self.world.runs[row // self.world.samples]


@dataclass(frozen=True)
class TSMH:
    """Starts from the words in their given order; the text is chosen as CGMH chooses it, by pi.

    `beta`, `steps`, `places` and `top` are as published; `longest` counts a given word as one token.
    """

    steps: int = 101
    beta: float = 1e-10
    places: int = 3
    top: int = 100
    longest: int = 24
    heuristic: Heuristic = EXACT
    masked: MaskedModel | None = None

    def __call__(self, problems: Problems, reverse: LanguageModel | None, seeds: Sequence[int]) -> list[str]:
        world = sentences_of(problems, reverse, self.masked, len(seeds), self.top)
        check_room(world, self.longest)
        chains = [self._chain(len(world.runs[row // world.samples]), seed) for row, seed in enumerate(seeds)]
        found = run(chains, Constrained(world, math.log(self.beta)))
        return [best_text(world, row, visited) for row, visited in enumerate(found)]

    def _chain(self, words: int, seed: int) -> Steps[dict[State, float]]:
        start = tuple(-word - 1 for word in range(words))
        places = min(self.places, words + 1)  # so many there are to begin with
        kernel = TreeSearch(words, self.longest, places)
        return walk(kernel, start, seeded(seed), self.steps, self.heuristic)
