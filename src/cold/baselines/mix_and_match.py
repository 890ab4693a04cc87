"""Mix-and-Match (Mireshghallah et al. 2022): E(y) = -beta sum_i logit(y_i | rest) + delta Hamming(y, ending) - ..."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from torch import Tensor

from cold.baselines.draws import Blend, Draw, Nearby, Seeded
from cold.baselines.metropolis import Around, Oracle, Proposal, State, Steps, drawn, run, stay, walk
from cold.baselines.oracle import nearby, writable
from cold.baselines.proposals import Gap, MaskedModel, Product, Proposer
from cold.errors import ColdError
from cold.lm.context import Context
from cold.lm.model import LanguageModel
from cold.lm.prefix import check_window
from cold.text import sentences
from cold.text.problems import Problems


@dataclass(frozen=True)
class Masking:
    """Hide one token, any with the same chance, and draw one for its place from the whole vocabulary."""

    def propose(self, state: State, draw: Draw) -> Steps[Proposal]:
        if not state:
            return stay(state)
        at = draw.one_of(len(state))
        left, right = state[:at], state[at + 1 :]
        near: Nearby = yield Around(left, right, (state[at],))
        token, forward = yield from drawn(Blend(near, {}), draw)
        return Proposal((*left, token, *right), forward, near.log(state[at]))


@dataclass(frozen=True, eq=False)
class Rewriting(Oracle):
    """pi(y) = exp(-E(y)) over texts as long as the ending, and the tokens that fit a place."""

    story: Context
    proposer: Proposer
    endings: tuple[State, ...]  # per row
    beta: float = 1.0
    delta: float = 1.0
    closeness: Callable[[int, State], float] = field(default=lambda row, state: 0.0)

    @property
    def samples(self) -> int:
        return len(self.endings) // self.story.examples

    @cached_property
    def fit(self) -> Tensor:
        return writable(self.story.lm)

    def near(self, rows: Sequence[int], asked: Sequence[Around]) -> list[Nearby]:
        gaps = [Gap(row // self.samples, gap.left, gap.right) for row, gap in zip(rows, asked, strict=True)]
        return nearby(self.proposer.logits(gaps).masked_fill(~self.fit, -float("inf")), asked)

    def score(self, rows: Sequence[int], states: Sequence[State]) -> list[float]:
        fluent = self.proposer.total([row // self.samples for row in rows], states).double().tolist()
        return [
            self.beta * good - self.delta * hamming(state, self.endings[row]) + self.closeness(row, state)
            for row, state, good in zip(rows, states, fluent, strict=True)
        ]


def hamming(state: State, other: State) -> int:
    """At how many places they differ."""
    return sum(a != b for a, b in zip(state, other, strict=True))


@dataclass(frozen=True)
class MixAndMatch:
    """A chain from the ending; the text is the one of lowest energy that it came through.

    `sweeps`: so many times the ending's length in steps. Not as published: a place is drawn anew for every step, not
    from a shuffled list, so each step is reversible; without `masked` the two LMs take the masked LM's part, and the
    logits are in nats: their sum is log P_forward(y) + log P_backward(y), and `delta` is nats per changed token.
    `similarity` of the two texts is weighed by `gamma`.
    """

    sweeps: int = 8
    beta: float = 1.0
    delta: float = 1.0
    gamma: float = 0.0
    similarity: Callable[[str, str], float] | None = None
    masked: MaskedModel | None = None

    def __call__(self, problems: Problems, reverse: LanguageModel | None, seeds: Sequence[int]) -> list[str]:
        world = self._world(problems, reverse, len(seeds))
        chains = [
            walk(Masking(), ending, Seeded(seed), self.sweeps * len(ending))
            for ending, seed in zip(world.endings, seeds, strict=True)
        ]
        lowest = [max(visited, key=visited.__getitem__) for visited in run(chains, world)]
        return [sentences.clean(problems.lm.decode(ids)) for ids in lowest]

    def _world(self, problems: Problems, reverse: LanguageModel | None, rows: int) -> Rewriting:
        story, samples = problems.story, rows // len(problems.examples)
        texts = [example.ending for example in problems.examples for _ in range(samples)]
        for number, text in enumerate(texts):
            if not text.strip():
                raise ColdError(
                    f"example {number // samples} has no ending, and Mix-and-Match can only rewrite one: "
                    "use it for the counterfactual task, or take another method"
                )
        endings = tuple(tuple(ids) for ids in story.y_ids(texts))
        check_window(story.lm, story.before, max(len(ids) for ids in endings))
        proposer = self.masked.place(story) if self.masked else Product(story, reverse)

        def closeness(row: int, state: State) -> float:
            if self.similarity is None:
                return 0.0
            return self.gamma * self.similarity(texts[row], sentences.clean(story.lm.decode(state)))

        return Rewriting(story, proposer, endings, self.beta, self.delta, closeness)
