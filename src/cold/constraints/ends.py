"""Where the sentence ends: f = log P(its first end lies within bounds), exact for independent positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from cold.constraints.base import Constraint, Random, Readings
from cold.errors import ColdError
from cold.soft import SoftSequence


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
