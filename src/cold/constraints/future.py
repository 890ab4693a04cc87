"""Future-token prediction: f_pred(y~; x_r) = sum_k log p_LM(x_r,k | y~, x_r,<k) (Eq. 4)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from cold.constraints.base import Constraint, Random, Readings, Reduction, total
from cold.errors import ColdError
from cold.kernels import chosen
from cold.lm.context import Context, Wish
from cold.soft import SoftSequence


@dataclass(frozen=True, eq=False)
class Future(Constraint):
    """How likely the LM of the context finds the right text after y~."""

    context: Context
    name: str = "future"
    reduction: Reduction = total

    wish = Wish(predicted=False, predicted_slope=False)

    def __post_init__(self) -> None:
        if not all(self.context.after):
            side = "left" if self.context.lm.reverse else "right"
            raise ColdError(f"term {self.name!r} predicts the {side} text of its context, which is empty: give one")

    @property
    def contexts(self) -> tuple[Context, ...]:  # type: ignore[override]
        return (self.context,)

    def score(self, y: SoftSequence, readings: Readings, random: Random) -> Tensor:
        reading = readings[self.context]
        return self.reduction(chosen(reading.after, reading.after_ids), reading.after_mask)
