"""NeuroLogic (Lu et al. 2021): a beam whose places go round the sets of clauses met; A*esque with a look ahead."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cold.baselines.hypotheses import Hypothesis, Limits
from cold.baselines.look_ahead import LookAhead
from cold.baselines.phrases import ReadAfresh, script_of, write
from cold.baselines.search import Search, read_on
from cold.lm.model import LanguageModel
from cold.text.clauses import Clauses, State
from cold.text.problems import Problems


def as_released(part: float) -> float:
    """The published code, to which the published beta belongs: a phrase just begun gets most."""
    return -math.log(part)


def as_written(part: float) -> float:
    """The paper: the more of the phrase stands there, the better."""
    return part


@dataclass(frozen=True)
class NeuroLogic(Limits):
    """Score: log P / length + beta * bonus(part of a phrase in progress) + alpha * what a look ahead finds.

    `sat_tolerance`: who is more clauses than this behind the best is dropped. `look_ahead`: tokens that
    A*esque (Lu et al. 2022) writes greedily to see how near the missing phrases are. `banned`: words never written.
    """

    sat_tolerance: int = 2
    beta: float = 1.25
    bonus: Callable[[float], float] = as_released
    look_ahead: int = 0
    alpha: float = 0.175
    banned: tuple[str, ...] = ()
    cache: bool = True

    def __call__(self, problems: Problems, reverse: LanguageModel | None, seeds: Sequence[int]) -> list[str]:
        script = script_of(problems.lm)
        read = read_on if self.cache else ReadAfresh(problems.story.left_ids)
        look = LookAhead(self.look_ahead, script.never) if self.look_ahead else None
        return write(Search(self, script, self.choose, read, look), problems, len(seeds), self.banned)

    def choose(self, clauses: Clauses, found: Sequence[Hypothesis], count: int) -> list[Hypothesis]:
        """First the best of every set of clauses met, then the second best of every set, and so on."""
        most = max(len(h.state.met) for h in found)
        kept = [h for h in found if len(h.state.met) >= most - self.sat_tolerance]
        bonus = {state: self._bonus(clauses, state) for state in {h.state for h in kept}}
        taken: Counter[frozenset[int]] = Counter()
        turns = []
        for hypothesis in sorted(kept, key=lambda h: self._fluency(h) + bonus[h.state], reverse=True):
            turns.append((taken[hypothesis.state.met], hypothesis))
            taken[hypothesis.state.met] += 1
        return [hypothesis for _, hypothesis in sorted(turns, key=lambda turn: turn[0])[:count]]

    def _fluency(self, hypothesis: Hypothesis) -> float:
        return hypothesis.logp / len(hypothesis.ids) + self.alpha * hypothesis.ahead

    def _bonus(self, clauses: Clauses, state: State) -> float:
        part = clauses.progress(state)
        return self.beta * self.bonus(part) if part else 0.0
