"""Where things stand: a word at a fixed place, and the place where the sentence ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from cold.constraints.base import Constraint, Random, Readings
from cold.errors import ColdError
from cold.soft import SoftSequence


@dataclass(frozen=True, eq=False)
class At(Constraint):
    """f = the mean log-probability of a word's tokens at a place: 0 is the first word, -1 the last token and so on."""

    word: Sequence[int]
    place: int = 0
    name: str = "at"

    def check(self, rows: int, length: int) -> None:
        if not self.word:
            raise ColdError(f"term {self.name!r}: the word is empty: give it at least one token")
        first = self.place if self.place >= 0 else length + self.place + 1 - len(self.word)
        if first < 0 or first + len(self.word) > length:
            raise ColdError(
                f"term {self.name!r}: {len(self.word)} tokens at place {self.place} do not fit into {length}: "
                "raise the length or take another place"
            )

    def score(self, y: SoftSequence, readings: Readings, random: Random) -> Tensor:
        first = self.place if self.place >= 0 else y.length + self.place + 1 - len(self.word)
        places = range(first, first + len(self.word))
        found = [y.logits[:, t, token] - y.level[:, t] for t, token in zip(places, self.word, strict=True)]
        return torch.stack(found).mean(0)


@dataclass(frozen=True, eq=False)
class Ends(Constraint):
    """f = log P(the sentence ends with its `at_least`-th to `at_most`-th token); its first end is the one that counts.

    With e_t the probability of a token that ends a sentence, the first stands at t with e_t prod_{s<t} (1 - e_s).
    """

    tokens: Sequence[int]  # that end a sentence
    at_least: int
    at_most: int
    name: str = "ends"
    placed: dict[torch.device, Tensor] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.tokens or not 1 <= self.at_least <= self.at_most:
            raise ColdError(
                f"term {self.name!r}: tokens {list(self.tokens)}, from {self.at_least} to {self.at_most}: "
                "give tokens that end a sentence, and a range from 1 up"
            )

    def check(self, rows: int, length: int) -> None:
        if self.at_least > length:
            raise ColdError(
                f"term {self.name!r} ends after {self.at_least} tokens, and there are {length}: raise length"
            )

    def score(self, y: SoftSequence, readings: Readings, random: Random) -> Tensor:
        if y.logits.device not in self.placed:
            self.placed[y.logits.device] = torch.tensor(list(self.tokens), device=y.logits.device)
        index = self.placed[y.logits.device].expand(y.rows, y.length, -1)
        goes_on = torch.log1p(-y.log_probs_of(index).exp().sum(-1).clamp(max=1 - 1e-6)).cumsum(1)
        before = goes_on[:, self.at_least - 2] if self.at_least > 1 else torch.zeros_like(goes_on[:, 0])
        after = goes_on[:, min(self.at_most, y.length) - 1]
        inside = -torch.expm1((after - before).clamp(max=-1e-12))  # P(an end in the range | none before it)
        return before + inside.log()
