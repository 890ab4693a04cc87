"""Meaning: how close a text is to a sentence in the LM's own word embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from cold.constraints.base import Constraint, Random, Readings
from cold.errors import ColdError
from cold.lm.model import LanguageModel
from cold.soft import SoftSequence, expand


@dataclass(frozen=True, eq=False)
class Meaning(Constraint):
    """f = cos(mean_t E^T softmax(y~_t), mean_j E(target_j)), E the embeddings less their mean.

    No order and no forms: `He bought a car` is close to `She buys cars`. The mean is taken away because all embeddings
    of an LM share a direction, which would make any two texts alike.
    """

    lm: LanguageModel
    targets: Sequence[Sequence[int]]  # token ids, one sentence per example
    name: str = "meaning"
    placed: dict[torch.device, tuple[Tensor, Tensor]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if not all(map(len, self.targets)):
            raise ColdError(f"term {self.name!r}: a target is empty: give it at least one word")

    @property
    def examples(self) -> int:  # type: ignore[override]
        return len(self.targets)

    def score(self, y: SoftSequence, readings: Readings, random: Random) -> Tensor:
        table, targets = self._placed(y.logits.device)
        found = y.logits.softmax(-1).mean(1) @ table.to(y.logits.dtype)
        return torch.cosine_similarity(found, expand(targets, y.rows).to(found.dtype), dim=-1)

    def _placed(self, device: torch.device) -> tuple[Tensor, Tensor]:
        if device not in self.placed:
            table = self.lm.table.to(device, torch.float32)
            table = table - table.mean(0)
            self.placed[device] = table, torch.stack([table[list(ids)].mean(0) for ids in self.targets])
        return self.placed[device]
