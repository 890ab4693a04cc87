"""What chains over a sentence are told: pi(y) = P(y and a full stop | left), and the tokens that fit a gap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise

import torch
from torch import Tensor

from cold.baselines.metropolis import NEVER, Around, Nearby, State
from cold.baselines.proposals import Gap, Proposer, shared_likelihoods
from cold.lm.context import Context
from cold.lm.model import LanguageModel
from cold.text.beam import unwritable


def writable(lm: LanguageModel) -> Tensor:
    """Which tokens may stand inside a sentence [vocab]: whole characters, no line break, nothing special."""
    return ~(lm.banned | unwritable(lm))


@dataclass(frozen=True, eq=False)
class Sentences:
    """What chains over y are told: pi(y) = P(y and a full stop | left), and the tokens that fit a gap.

    A word that must appear is one id, -1 for the example's first, so that its tokens stay together; pi is 0 where a
    token sticks to its end and makes another word of it ("dog" and "s").
    """

    story: Context
    proposer: Proposer
    samples: int
    runs: tuple[tuple[State, ...], ...]  # per example: the token ids of its words
    stop: State = ()
    top: int = 100

    def spell(self, row: int, state: State) -> list[int]:
        """The state in tokens."""
        runs = self.runs[row // self.samples]
        return [token for one in state for token in (runs[-one - 1] if one < 0 else (one,))]

    def text(self, row: int, state: State) -> str:
        return " ".join(self.story.lm.decode([*self.spell(row, state), *self.stop]).split())

    def near(self, rows: Sequence[int], asked: Sequence[Around]) -> list[Nearby]:
        gaps = [
            Gap(row // self.samples, self.spell(row, gap.left), [*self.spell(row, gap.right), *self.stop])
            for row, gap in zip(rows, asked, strict=True)
        ]
        logits = self.proposer.logits(gaps).masked_fill(~self.fit, NEVER)
        behind_word = torch.tensor([bool(gap.left) and gap.left[-1] < 0 for gap in asked], device=logits.device)
        return nearby(logits.masked_fill(behind_word[:, None] & self.sticks, NEVER), self.top)

    def score(self, rows: Sequence[int], states: Sequence[State]) -> list[float]:
        asked = groupby(zip(rows, states, strict=True), key=lambda pair: pair[0])
        groups = {row: [[*self.spell(row, state), *self.stop] for _, state in pairs] for row, pairs in asked}
        examples = [row // self.samples for row in groups]
        found = shared_likelihoods(self.story.prefix, examples, list(groups.values())).double().tolist()
        return [score if self.whole(state) else NEVER for score, state in zip(found, states, strict=True)]

    def whole(self, state: State) -> bool:
        """Whether nothing sticks to a word that must appear."""
        return not any(a < 0 <= b and self.sticks[b] for a, b in pairwise(state))

    @cached_property
    def sticks(self) -> Tensor:
        """Tokens that go on with the word before them."""
        strings = self.story.lm.token_strings
        return torch.tensor([text[:1].isalnum() or text[:1] in set("'’-_") for text in strings], device=self.fit.device)

    @cached_property
    def fit(self) -> Tensor:
        """Tokens for a gap; none that ends a sentence, where the one full stop comes by itself."""
        fit = writable(self.story.lm)
        if self.stop:
            ends = [bool(set(text) & set(".!?…")) for text in self.story.lm.token_strings]
            fit &= ~torch.tensor(ends, device=fit.device)
        return fit


def nearby(logits: Tensor, top: int = 0) -> list[Nearby]:
    """softmax(logits) [rows, vocab] of each row, and its `top` likeliest tokens."""
    best = logits.topk(min(top, logits.shape[-1]), dim=-1)
    there = best.values > NEVER
    log_probs = logits.double().cpu().log_softmax(-1)
    ids = [tuple(row[fits].tolist()) for row, fits in zip(best.indices, there, strict=True)]
    return [Nearby(one, few) for one, few in zip(log_probs, ids, strict=True)]
