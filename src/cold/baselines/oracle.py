"""What chains over a sentence are told: pi(y) = P(y and a full stop | left), and the tokens that fit a gap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor

from cold.baselines.draws import NEVER, Nearby
from cold.baselines.metropolis import Around, Fill, Oracle, State
from cold.baselines.proposals import Gap, Proposer
from cold.lm.context import Context
from cold.lm.model import LanguageModel
from cold.lm.score import Gapped, fillings, likelihoods
from cold.soft import pad
from cold.text.beam import unwritable


def writable(lm: LanguageModel) -> Tensor:
    """Which tokens may stand inside a sentence [vocab]: whole characters, no line break, nothing special."""
    return ~(lm.banned | unwritable(lm))


@dataclass(frozen=True, eq=False)
class Sentences(Oracle):
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

    def near(self, rows: Sequence[int], asked: Sequence[Around], barred: Sequence[Sequence[int]] = ()) -> list[Nearby]:
        """`barred`: per row, tokens that are not for its gap."""
        gaps = [
            Gap(row // self.samples, self.spell(row, gap.left), [*self.spell(row, gap.right), *self.stop])
            for row, gap in zip(rows, asked, strict=True)
        ]
        logits = self.proposer.logits(gaps).masked_fill(~self.fit, NEVER)
        behind_word = torch.tensor([bool(gap.left) and gap.left[-1] < 0 for gap in asked], device=logits.device)
        logits.masked_fill_(behind_word[:, None] & self.sticks, NEVER)
        pairs = [(n, token) for n, tokens in enumerate(barred) for token in tokens]
        if pairs:
            logits[torch.tensor(pairs, device=logits.device).unbind(1)] = NEVER
        return nearby(logits, asked, self.top)

    def fill(self, rows: Sequence[int], asked: Sequence[Fill]) -> list[list[float]]:
        texts = [
            Gapped(self.spell(row, gap.left), gap.tokens, [*self.spell(row, gap.right), *self.stop])
            for row, gap in zip(rows, asked, strict=True)
        ]
        found = fillings(self.story.prefix, [row // self.samples for row in rows], texts)
        for gap, scores in zip(asked, found, strict=True):
            if not (self.whole(gap.left) and self.whole(gap.right)):
                scores[:] = [NEVER] * len(scores)
            elif gap.left and gap.left[-1] < 0:
                fits = [token not in self.sticking for token in gap.tokens]
                scores[:] = [score if fit else NEVER for score, fit in zip(scores, fits, strict=True)]
        return found

    def score(self, rows: Sequence[int], states: Sequence[State]) -> list[float]:
        texts = [[*self.spell(row, state), *self.stop] for row, state in zip(rows, states, strict=True)]
        found = likelihoods(self.story.prefix, [row // self.samples for row in rows], texts).double().tolist()
        return [score if self.whole(state) else NEVER for score, state in zip(found, states, strict=True)]

    def whole(self, state: State) -> bool:
        """Whether nothing sticks to a word that must appear."""
        return not any(a < 0 and b in self.sticking for a, b in pairwise(state))

    @cached_property
    def sticks(self) -> Tensor:
        """Tokens that go on with the word before them."""
        strings = self.story.lm.token_strings
        return torch.tensor([text[:1].isalnum() or text[:1] in set("'’-_") for text in strings], device=self.fit.device)

    @cached_property
    def sticking(self) -> frozenset[int]:
        """The same by their ids."""
        return frozenset(self.sticks.nonzero()[:, 0].tolist())

    @cached_property
    def fit(self) -> Tensor:
        """Tokens for a gap; none that ends a sentence, where the one full stop comes by itself."""
        fit = writable(self.story.lm)
        if self.stop:
            ends = [bool(set(text) & set(".!?…")) for text in self.story.lm.token_strings]
            fit &= ~torch.tensor(ends, device=fit.device)
        return fit


def nearby(logits: Tensor, asked: Sequence[Around], top: int = 0) -> list[Nearby]:
    """softmax(logits) [rows, vocab] of each row, its `top` likeliest tokens, and what was asked about it."""
    log_probs = logits.double().log_softmax(-1)
    best = log_probs.topk(min(top, logits.shape[-1]), dim=-1)
    known, _ = pad([gap.known for gap in asked], logits.device)
    asked_for = log_probs.gather(1, known).tolist()
    found = []
    for n, (tokens, values) in enumerate(zip(best.indices.tolist(), best.values.tolist(), strict=True)):
        few = {token: value for token, value in zip(tokens, values, strict=True) if value > NEVER}
        told = few | dict(zip(asked[n].known, asked_for[n], strict=False))
        found.append(Nearby(log_probs[n], tuple(few), told))
    return found
