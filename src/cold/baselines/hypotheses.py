"""What a beam over token ids is made of: hypotheses, tasks, the script all texts follow, and the limits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy.typing as npt
from torch import Tensor

from cold.errors import ColdError
from cold.text.clauses import Clauses, State


class Hypothesis(NamedTuple):
    ids: tuple[int, ...]
    logp: float
    state: State
    row: int = 0  # of the prefix that has read it; for a candidate that of its parent
    closed: bool = False  # its last token completed a phrase
    ahead: float = 0.0  # what a look ahead found

    def then(self, row: int, token: int, logp: float, state: State) -> Hypothesis:
        """What one token more makes of it; `row` is its own."""
        return Hypothesis((*self.ids, token), logp, state, row, state.met > self.state.met)


Beams = Mapping[int, Sequence[Hypothesis]]  # per task that still goes on
Found = dict[int, list[Hypothesis]]  # per task
Rows = Sequence[tuple[int, Hypothesis]]  # a task's number and one of its hypotheses, as the prefix has them
Choose = Callable[[Clauses, Sequence[Hypothesis], int], list[Hypothesis]]  # the best so many, best first
Ends = Callable[[tuple[int, ...]], bool]  # whether a text is over


@dataclass(frozen=True, eq=False)
class Pool:
    """A task's continuations by the state they come to, the best first; only those looked at become hypotheses."""

    rows: Rows
    groups: dict[State, tuple[npt.NDArray[Any], ...]] = field(default_factory=dict)  # row, token, log P

    def best(self, few: int) -> list[Hypothesis]:
        """So many of every state."""
        return [
            self.rows[row][1].then(row, token, logp, state)
            for state, group in self.groups.items()
            for row, token, logp in zip(*(column[:few].tolist() for column in group), strict=True)
        ]

    def chosen(self, choose: Choose, clauses: Clauses, count: int, few: int = 4) -> list[Hypothesis]:
        """What `choose` would take of all: of texts in one state and of one length it prefers the likelier.

        So a few of every state will do, unless all these few of a state are taken and there are more.
        """
        found = choose(clauses, self.best(few), count)
        taken = Counter(hypothesis.state for hypothesis in found)
        if any(times == few < len(self.groups[state][0]) for state, times in taken.items()):
            return self.chosen(choose, clauses, count, 4 * few)
        return found

    @property
    def logp(self) -> float:
        """Of the likeliest."""
        return max(float(values[0]) for *_, values in self.groups.values())


class Task(NamedTuple):
    """One example in ids."""

    clauses: Clauses
    openers: Tensor  # tokens that may come first [vocab]
    left: tuple[int, ...] = ()  # what stands before the text, which must not be copied


class Script(NamedTuple):
    """What all texts have in common."""

    never: Tensor  # tokens that are never written [vocab]
    glue: Tensor  # tokens that would go on with the word before, so that a phrase would only be part of it [vocab]
    stops: tuple[int, ...]  # tokens tried as the end of every text that has all it needs
    ends: Ends
    final: Tensor  # tokens that may be the last; all others never end a text [vocab]


@dataclass(frozen=True)
class Limits:
    """The settings of NeuroLogic without training, as published.

    No `no_repeat` tokens in a row come twice. An end is tried among the `width * early_stop` best tokens, any other
    one must be among the `prune_factor` best of all hypotheses. Whole texts are ranked by log P / length^penalty.
    Not published: no `echo` tokens in a row are copied from the left text, as in our own beam.
    """

    width: int = 20
    max_length: int = 32
    min_length: int = 5
    no_repeat: int = 3
    echo: int = 4
    early_stop: int = 10
    prune_factor: int = 500_000
    length_penalty: float = 0.2

    def __post_init__(self) -> None:
        for name in ("width", "max_length", "early_stop", "prune_factor"):
            if getattr(self, name) < 1:
                raise ColdError(f"{name} of a search is {getattr(self, name)}: take at least 1")
        if self.length_penalty < 0:
            raise ColdError(f"the length penalty is {self.length_penalty}: below 0 no search knows when to stop")

    def merit(self, hypothesis: Hypothesis) -> float:
        return hypothesis.logp / math.pow(len(hypothesis.ids), self.length_penalty)
