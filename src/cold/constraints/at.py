"""A word at a fixed place: the first word, the last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
