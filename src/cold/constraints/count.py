"""How often words come: the log-probability that their number lies within bounds, exact for independent positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from cold.constraints.base import Constraint, Random, Readings
from cold.errors import ColdError
from cold.soft import SoftSequence

LEAST = 1e-30  # a probability below this has no logarithm in fp32 that could be differentiated


@dataclass(frozen=True, eq=False)
class Count(Constraint):
    """f = log P(at_least <= N <= at_most), N the number of positions where one of the words begins.

    With m_t the probability of that at position t, N has the Poisson binomial distribution; its table is built one
    position at a time. One word more than asked for is worth nothing, so the term never rewards repetition.
    `at_most=0` forbids the words, `at_least=1` asks for any of them (a list of cheerful ones sets a mood), both bounds
    alike ask for an exact number.
    """

    words: Sequence[Sequence[int]]  # token ids of each
    at_least: int = 0
    at_most: int | None = None
    name: str = "count"
    placed: dict[torch.device, list[Tensor]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.words or not all(map(len, self.words)):
            raise ColdError(f"term {self.name!r}: a word is missing or empty: give at least one, each with a token")
        if self.at_least < 0 or (self.at_most is not None and self.at_most < self.at_least):
            raise ColdError(
                f"term {self.name!r}: at least {self.at_least} and at most {self.at_most} is no range: turn them round"
            )
        if self.at_least == 0 and self.at_most is None:
            raise ColdError(f"term {self.name!r} asks for nothing: give at_least, at_most or both")

    def check(self, rows: int, length: int) -> None:
        if self.at_least > length:
            raise ColdError(f"term {self.name!r} asks for {self.at_least} words in {length} tokens: raise the length")

    def score(self, y: SoftSequence, readings: Readings, random: Random) -> Tensor:
        begins = self._begins(y)
        if self.at_most is None:  # the complement is the shorter table
            return _log(1 - self._table(begins, self.at_least - 1).sum(-1))
        return _log(self._table(begins, min(self.at_most, y.length))[:, self.at_least :].sum(-1))

    def _begins(self, y: SoftSequence) -> Tensor:
        """m_t [rows, T]: the summed probability of the words from position t on."""
        found = torch.zeros_like(y.logits[..., 0])
        for ids in self._placed(y.logits.device):
            if len(ids) > y.length:
                continue
            each = y.log_probs_of(ids.expand(y.rows, y.length, -1))  # [rows, T, tokens]
            begun = sum(each[:, m : y.length - len(ids) + 1 + m, m] for m in range(len(ids)))
            assert isinstance(begun, Tensor)
            found = found + F.pad(begun.exp(), (0, len(ids) - 1))
        return found.clamp(max=1.0)

    def _table(self, begins: Tensor, most: int) -> Tensor:
        """P(N = 0), ..., P(N = most) [rows, most + 1]."""
        table = F.pad(torch.ones_like(begins[:, :1]), (0, most))
        for t in range(begins.shape[1]):
            here = begins[:, t, None]
            table = table * (1 - here) + F.pad(table, (1, 0))[:, :-1] * here
        return table

    def _placed(self, device: torch.device) -> list[Tensor]:
        if device not in self.placed:
            self.placed[device] = [torch.tensor(list(ids), device=device) for ids in self.words]
        return self.placed[device]


def _log(probability: Tensor) -> Tensor:
    return probability.clamp(min=LEAST).log()
