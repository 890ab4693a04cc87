"""TSMH (Zhang et al. 2020): Metropolis-Hastings with a tree search over edits, pi(y) ~ P(y) beta^violations(y)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cold.baselines.cgmh import best_text, check_room, sentences_of, shares
from cold.baselines.draws import NEVER, Blend, Draw, Nearby, Seeded
from cold.baselines.metropolis import (
    EXACT,
    Around,
    Heuristic,
    Oracle,
    Proposal,
    State,
    Steps,
    drawn,
    run,
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
    weights: npt.NDArray[Any]
    alike: list[tuple[float, list[int]]]  # the weights there are, and the flat numbers of the templates with each

    def draw(self, draw: Draw) -> Template:
        _, some = self.alike[draw([weight * len(some) for weight, some in self.alike])]
        index = np.unravel_index(some[draw.one_of(len(some))], self.weights.shape)
        return tuple(row[i] for row, i in zip(self.edits, index, strict=True))

    def share(self, template: Template) -> float:
        """How likely it is drawn."""
        index = tuple(row.index(edit) for row, edit in zip(self.edits, template, strict=True))
        return float(self.weights[index] / self.weights.sum())


class Spot(NamedTuple):
    """All that a search need know of a place: what stands behind it, and whether that may go."""

    holds: int | None  # a word's id, ANY token, or nothing
    parted: bool  # the next place is further on: taking out all up to it would join the two


class Frame(NamedTuple):
    """All that it need know of a sentence: many have the same, so that each search is done once."""

    surplus: tuple[int, ...]  # of each word: how often it is there, less one
    fewer: int  # tokens that may go at most
    more: int  # tokens that may come at most


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
        count = math.comb(len(state) + 1, self.places)
        if not count:
            return stay(state)
        at = combination(len(state) + 1, self.places, draw.one_of(count))
        tree = self.search(state, at)
        if not tree.alike:
            return stay(state)
        template = tree.draw(draw)
        new, filled = yield from self._fill(state, at, template, draw)
        back_at, back = mirror(state, at, template)
        taken = [state[g] for g, edit in zip(at, template, strict=True) if edit.takes]
        refilled = yield from self._refill(new, back_at, back, [token for token in taken if token >= 0])
        again = self.search(new, back_at)
        forward = filled + _log(tree.share(template)) - math.log(count)
        backward = refilled + _log(again.share(back)) - math.log(math.comb(len(new) + 1, self.places))
        return Proposal(new, forward, backward)

    def search(self, state: State, at: Sequence[int]) -> Tree:
        """Every template that fits the length and can be undone, by its violations."""
        behind = [*at[1:], len(state) + 2]
        holds = [min(state[g], ANY) if g < len(state) else None for g in at]
        spots = tuple(Spot(held, after - g > 1) for held, g, after in zip(holds, at, behind, strict=True))
        surplus = tuple(state.count(word) - 1 for word in range(-1, -self.words - 1, -1))
        fewer, more = (min(room, len(at)) for room in (len(state) + 1 - self.places, self.longest - len(state)))
        return grown(spots, Frame(surplus, fewer, more), self.slack)

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
                token, chance = yield from drawn(blend(near, self.wide), draw)
                total += chance
                done = (*done, token)
            elif edit.puts is not None:
                done = (*done, edit.puts)
        return done + state[read:], total

    def _refill(self, state: State, at: Sequence[int], template: Template, tokens: Sequence[int]) -> Steps[float]:
        """How likely the same edits would have drawn these tokens."""
        done: State = ()
        known, read, total = iter(tokens), 0, 0.0
        for g, edit in zip(at, template, strict=True):
            done, read = done + state[read:g], g + edit.takes
            if edit.puts == ANY:
                token = next(known)
                near = yield Around(done, state[read:], (token,))
                total += blend(near, self.wide).log(token)
                done = (*done, token)
            elif edit.puts is not None:
                done = (*done, edit.puts)
        return total


def combination(size: int, count: int, number: int) -> tuple[int, ...]:
    """The number-th choice of `count` of so many places, in the order of itertools.combinations."""
    found: list[int] = []
    for place in range(size):
        with_it = math.comb(size - place - 1, count - len(found) - 1) if len(found) < count else 0
        if number < with_it:
            found.append(place)
        else:
            number -= with_it
    return tuple(found)


@lru_cache(maxsize=1 << 12)
def grown(spots: tuple[Spot, ...], frame: Frame, slack: float) -> Tree:
    """The tree of all edits at these places; kept, as its shape depends on little."""
    words = range(-1, -len(frame.surplus) - 1, -1)
    edits = [_edits(spot, len(words)) for spot in spots]
    surplus, size = np.array(frame.surplus, dtype=np.int64), np.array(0)
    for n, row in enumerate(edits):
        axis = [len(row) if n == other else 1 for other in range(len(spots))]
        changes = [[(e.puts == w) - (e.takes and spots[n].holds == w) for w in words] for e in row]
        surplus = surplus + np.array(changes, dtype=np.int64).reshape(*axis, len(words))
        size = size + np.array([edit.grows for edit in row]).reshape(axis)
    count = np.abs(surplus).sum(-1)
    fits = (size >= -frame.fewer) & (size <= frame.more)
    fits[(0,) * len(spots)] = False  # all kept
    fewest = count[fits].min() if fits.any() else 0
    weights = np.where(fits, slack ** (count - fewest).clip(min=0).astype(float), 0.0)
    levels = [level for level in np.unique(weights).tolist() if level > 0]
    return Tree(edits, weights, [(level, np.flatnonzero(weights == level).tolist()) for level in levels])


def _edits(spot: Spot, words: int) -> list[Edit]:
    """What can be done at a place."""
    fillings = [ANY, *range(-1, -words - 1, -1)]
    found = [KEEP, *(Edit(False, filling) for filling in fillings)]
    if spot.holds is not None:
        found += [Edit(True, filling) for filling in fillings if filling == ANY or filling != spot.holds]
        found += [Edit(True, None)] if spot.parted else []
    return found


def mirror(state: State, at: Sequence[int], template: Template) -> tuple[tuple[int, ...], Template]:
    """The places and the template that undo it."""
    places, edits, shift = [], [], 0
    for g, edit in zip(at, template, strict=True):
        places.append(g + shift)
        edits.append(Edit(edit.puts is not None, min(state[g], ANY) if edit.takes else None))
        shift += edit.grows
    return tuple(places), tuple(edits)


def blend(near: Nearby, wide: float) -> Blend:
    """The candidates by their probability, and with the share `wide` any token: what is there can be drawn again."""
    return Blend(near, shares(near.best, [near.log(token) for token in near.best]), wide)


def violations(state: State, words: int) -> int:
    """sum over the words of |how often it is there - 1|."""
    return sum(abs(state.count(-word - 1) - 1) for word in range(words))


def _log(probability: float) -> float:
    return math.log(probability) if probability > 0 else NEVER


@dataclass(frozen=True, eq=False)
class Constrained(Oracle):
    """pi(y) ~ P(y) beta^violations(y); a word that must appear once is no token for a gap."""

    world: Sentences
    log_beta: float

    def near(self, rows: Sequence[int], asked: Sequence[Around]) -> list[Nearby]:
        alone = [[ids[0] for ids in self._runs(row) if len(ids) == 1] for row in rows]
        return self.world.near(rows, asked, alone)

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
        return walk(kernel, start, Seeded(seed), self.steps, self.heuristic)
