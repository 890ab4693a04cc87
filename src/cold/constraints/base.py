"""A constraint scores a soft sequence: f(y~), one number per row, higher is better (section 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from cold.errors import ColdError
from cold.lm.context import Context, Reading, Wish
from cold.soft import SoftSequence

if TYPE_CHECKING:
    from cold.constraints.energy import Energy

Readings = Mapping[Context, Reading]
Reduction = Callable[[Tensor, Tensor], Tensor]  # per-token scores and their 0/1 mask [rows, n] -> [rows]


class Random(Protocol):
    """Randomness handed in by the caller: a function of row, step and stream, never of the batch."""

    def gumbel(self, stream: str, shape: tuple[int, ...]) -> Tensor: ...


def total(scores: Tensor, mask: Tensor) -> Tensor:
    """Sum over tokens, as the paper writes it."""
    return (scores * mask).sum(1)


def mean(scores: Tensor, mask: Tensor) -> Tensor:
    """Mean over tokens, as the published code, and so its weights, have it."""
    return (scores * mask).sum(1) / mask.sum(1).clamp(min=1)


class Constraint:
    """Base of all constraints. `weight * constraint` is an energy; energies add up."""

    name: str = ""
    contexts: tuple[Context, ...] = ()
    wish: Wish = Wish()  # what it takes from the readings of its contexts, and where it needs a gradient
    examples: int = 1  # how many examples it was built for; 1 serves any number

    def score(self, y: SoftSequence, readings: Readings, random: Random) -> Tensor:
        raise NotImplementedError

    def check(self, rows: int, length: int) -> None:
        """Raise if this cannot work for so many rows of that length."""

    def __rmul__(self, weight: float) -> Energy:
        from cold.constraints.energy import Energy, Term

        return Energy((Term(float(weight), self),))

    __mul__ = __rmul__

    def __add__(self, other: Constraint | Energy) -> Energy:
        return 1.0 * self + other


class Function(Constraint):
    """Any function of a SoftSequence that returns one number per row."""

    def __init__(self, function: Callable[[SoftSequence], Tensor], name: str = "") -> None:
        self.function = function
        self.name = name or getattr(function, "__name__", "function")

    def score(self, y: SoftSequence, readings: Readings, random: Random) -> Tensor:
        try:
            out = self.function(y)
        except Exception as error:
            raise ColdError(f"constraint {self.name!r} failed with {type(error).__name__}: {error}") from error
        if not isinstance(out, torch.Tensor) or out.shape != (y.rows,):
            shape = list(out.shape) if isinstance(out, torch.Tensor) else type(out).__name__
            raise ColdError(
                f"constraint {self.name!r} returned {shape} for {y.rows} rows: "
                f"return one number per row, a tensor of shape [{y.rows}]"
            )
        return out.float()
