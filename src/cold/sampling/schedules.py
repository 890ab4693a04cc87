"""Noise schedules: step -> sigma. Each is built for a number of steps, so any number keeps its shape."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from cold.errors import ColdError

Schedule = Callable[[int], float]

PAPER_LEVELS = (1.0, 0.5, 0.1, 0.05, 0.01)  # section 3.4: at iterations 0, 50, 500, 1000, 1500 of 2000
PAPER_STARTS = (0.0, 0.025, 0.25, 0.5, 0.75)
RELEASED_ENDING_LEVELS = (0.5, 0.1, 0.05, 0.01)  # the published counterfactual script: at 0, 50, 200, 500 of 2000
RELEASED_ENDING_STARTS = (0.0, 0.025, 0.1, 0.25)


def staircase(
    steps: int, levels: Sequence[float] = PAPER_LEVELS, starts: Sequence[float] = PAPER_STARTS, scale: float = 1.0
) -> Schedule:
    """Sigma takes each level from its start on; starts are fractions of the steps."""
    if len(levels) != len(starts) or not levels or starts[0] != 0 or list(starts) != sorted(starts):
        raise ColdError("a staircase needs as many starts as levels, rising from 0: for example levels [1, 0.1]")
    first = [math.floor(start * steps + 0.5) for start in starts]

    def sigma(step: int) -> float:
        return scale * next(level for level, at in zip(levels[::-1], first[::-1], strict=True) if step >= at)

    return sigma


def geometric(steps: int, begin: float = 1.0, end: float = 0.01) -> Schedule:
    """From begin to end in equal ratios."""
    if not (begin > 0 and end > 0):
        raise ColdError("a geometric schedule runs between two numbers above 0: use a constant schedule for 0")
    return lambda step: begin * (end / begin) ** (min(step, steps - 1) / max(steps - 1, 1))


def constant(sigma: float) -> Schedule:
    return lambda step: sigma


def langevin_noise(step_size: float, temperature: float = 1.0) -> Schedule:
    """sigma = sqrt(2 step_size temperature): with it the chain samples exp(-E / temperature), up to O(step_size)."""
    return constant(math.sqrt(2 * step_size * temperature))
