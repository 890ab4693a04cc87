"""CGMH (Miao et al. 2019): insert, replace and delete by Metropolis-Hastings, pi(y) = P(y), the keywords frozen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cold.baselines.draws import Blend, Draw, Nearby, Seeded
from cold.baselines.metropolis import (
    EXACT,
    Around,
    Fill,
    Heuristic,
    Mixture,
    Proposal,
    State,
    Stay,
    Steps,
    drawn,
    run,
    stay,
    walk,
)
from cold.baselines.oracle import Sentences
from cold.baselines.proposals import MaskedModel, Product
from cold.errors import ColdError
from cold.lm.model import LanguageModel
from cold.lm.prefix import check_window
from cold.text import sentences
from cold.text.problems import Problems
from cold.text.words import word_ids, words_of

REPLACE, RESIZE, NOTHING = 0.3, 0.6, 0.1  # as published; RESIZE is insert or delete, 0.3 each
FEWEST_WORDS = 7  # of a text that is given out, as published

# The published code's: only moves to at least half the probability, in every other ten steps; insertion made easier.
RELEASED = Heuristic(threshold=0.5, period=10, prior=10.0)


@dataclass(frozen=True)
class Replace:
    """A token for another that fits in its place. With `wide` = 0 this is Gibbs and always accepted."""

    wide: float = 0.0

    def propose(self, state: State, draw: Draw) -> Steps[Proposal]:
        hole = opened(state, draw)
        if hole is None:
            return stay(state)
        left, old, right = hole
        blend = yield from fitting(left, right, self.wide, old)
        token, forward = yield from drawn(blend, draw)
        return Proposal((*left, token, *right), forward, blend.log(old))


@dataclass(frozen=True)
class Resize:
    """A token more, or a token less: each undoes the other. A place has the chance 1 / (n + 1) in both directions."""

    longest: int
    wide: float = 0.0

    def propose(self, state: State, draw: Draw) -> Steps[Proposal]:
        return (yield from (self._insert if draw.one_of(2) else self._delete)(state, draw))

    def _insert(self, state: State, draw: Draw) -> Steps[Proposal]:
        if len(state) >= self.longest:
            return stay(state)
        at = draw.one_of(len(state) + 1)
        left, right = state[:at], state[at:]
        token, forward = yield from drawn((yield from fitting(left, right, self.wide)), draw)
        return Proposal((*left, token, *right), forward, 0.0)

    def _delete(self, state: State, draw: Draw) -> Steps[Proposal]:
        hole = opened(state, draw)
        if hole is None:
            return stay(state)
        left, old, right = hole
        blend = yield from fitting(left, right, self.wide, old)
        return Proposal(left + right, 0.0, blend.log(old))


def opened(state: State, draw: Draw) -> tuple[State, int, State] | None:
    """Any token with what stands around it; none of a word that must stay."""
    at = draw.one_of(len(state)) if state else 0
    return (state[:at], state[at], state[at + 1 :]) if state and state[at] >= 0 else None


def fitting(left: State, right: State, wide: float, *known: int) -> Steps[Blend]:
    """How likely each token is drawn for the gap: as likely as it makes the sentence, among the candidates.

    A share `wide` is drawn from the whole vocabulary: a token that is no longer among the candidates could never be
    put back, so the exact rule would never let it go. `known`: tokens that will be asked about.
    """
    near: Nearby = yield Around(left, right, known)
    scores: list[float] = yield Fill(left, near.best, right)
    return Blend(near, shares(near.best, scores), wide)


def shares(tokens: Sequence[int], logs: Sequence[float]) -> dict[int, float]:
    """softmax(logs), by token."""
    most = max(logs, default=0.0)
    weights = [math.exp(log - most) for log in logs]
    total = sum(weights)
    return {token: weight / total for token, weight in zip(tokens, weights, strict=True)}


@dataclass(frozen=True)
class CGMH:
    """Starts from the words in their given order. The text is the likeliest sentence visited that has 7 words or more,
    all with one full stop behind, which P counts; where none has 7 words, the likeliest with the most words.

    `top`: candidates for a gap. `longest`: the most tokens, a given word counting as one. `heuristic`: off unless given
    (`RELEASED`). Not as published: places are drawn at random and not swept; `wide` (see `fitting`).
    """

    steps: int = 100
    top: int = 100
    wide: float = 0.05
    longest: int = 24
    heuristic: Heuristic = EXACT
    masked: MaskedModel | None = None

    def __call__(self, problems: Problems, reverse: LanguageModel | None, seeds: Sequence[int]) -> list[str]:
        world = sentences_of(problems, reverse, self.masked, len(seeds), self.top)
        check_room(world, self.longest)
        replace, resize = Replace(self.wide), Resize(self.longest, self.wide)
        kernel = Mixture((replace, resize, Stay()), (REPLACE, RESIZE, NOTHING))
        starts = [tuple(-n - 1 for n in range(len(world.runs[row // world.samples]))) for row in range(len(seeds))]
        chains = [
            walk(kernel, start, Seeded(seed), self.steps, self.heuristic)
            for start, seed in zip(starts, seeds, strict=True)
        ]
        return [best_text(world, row, visited) for row, visited in enumerate(run(chains, world))]


def best_text(world: Sentences, row: int, visited: dict[State, float]) -> str:
    """The likeliest that has enough words; of those too short, the longest."""
    texts = {world.text(row, state): score for state, score in visited.items()}
    return sentences.clean(max(texts, key=lambda text: (min(len(words_of(text)), FEWEST_WORDS), texts[text])))


def sentences_of(
    problems: Problems, reverse: LanguageModel | None, masked: MaskedModel | None, rows: int, top: int
) -> Sentences:
    """What the problems' LMs tell chains that write one sentence with the examples' words."""
    lm, story = problems.lm, problems.story
    runs = tuple(tuple(tuple(word_ids(lm, word)) for word in example.words) for example in problems.examples)
    proposer = masked.place(story) if masked else Product(story, reverse)
    return Sentences(story, proposer, rows // story.examples, runs, tuple(lm.encode_after(".", "word")), top)


def check_room(world: Sentences, longest: int) -> None:
    most = max(len(runs) for runs in world.runs)
    if most > longest:
        raise ColdError(f"{most} words must appear but a text has at most {longest} tokens: raise longest")
    spelled = max(sum(len(run) for run in runs) for runs in world.runs)
    check_window(world.story.lm, world.story.before, longest + spelled + len(world.stop))
