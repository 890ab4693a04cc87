"""Soft fluency: f_LM(y~) = sum_t sum_v p_LM(v | y~_<t) log softmax(y~_t(v)), in either direction (Eq. 3)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cold.constraints.base import Constraint, Random, Readings, Reduction, total
from cold.errors import ColdError
from cold.kernels import agreement
from cold.lm.context import Context, Wish
from cold.soft import SoftSequence

ECHO = 1e4  # the published code's penalty on what the reverse LM expects one position later


@dataclass(frozen=True, eq=False)
class Fluency(Constraint):
    """How well each token distribution agrees with what the LM of the context expects there.

    As released: `detach` (each position is pulled to the LM's prediction, which itself stays put), `within`
    (the prediction is cut to the context's candidate set and renormalized) and, right to left, `no_echo`.
    """

    context: Context
    name: str = "fluency"
    reduction: Reduction = total
    detach: bool = False
    within: bool = False
    no_echo: bool = False

    def __post_init__(self) -> None:
        if self.within and not self.context.top_k:
            raise ColdError(f"term {self.name!r} looks within the candidate set, but its context has top_k = 0")

    @property
    def contexts(self) -> tuple[Context, ...]:  # type: ignore[override]
        return (self.context,)

    @property
    def wish(self) -> Wish:  # type: ignore[override]
        return Wish(after=False, predicted_slope=not self.detach, after_slope=False)

    def score(self, y: SoftSequence, readings: Readings, random: Random) -> Tensor:
        reading = readings[self.context]
        expected = reading.predicted.detach() if self.detach else reading.predicted
        logits, level = y.logits[:, reading.covers], y.level[:, reading.covers]
        if self.no_echo:
            echo = expected[:, 1:].softmax(-1)
            expected = torch.cat([expected[:, :-1].sub(echo, alpha=ECHO), expected[:, -1:]], 1)
        if self.within and reading.candidates is not None:
            expected, logits = reading.candidates.pick(expected), logits.gather(-1, reading.candidates.ids)
        per_token = agreement(expected, logits) - level
        return self.reduction(per_token, torch.ones_like(per_token))
