"""A beam over token ids that must meet clauses: log P of a text, and a rule that says which hypotheses live on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from cold.baselines.hypotheses import Beams, Choose, Hypothesis, Limits, Pool, Script, Task
from cold.baselines.offers import Offers
from cold.lm.prefix import Prefix

Read = Callable[[Prefix, Beams], Prefix]  # the LM reads the last token of every hypothesis


class Look(Protocol):
    """Looks ahead of a short list, `among` times as long as the beam, before the beam is chosen from it."""

    @property
    def among(self) -> int: ...

    def __call__(self, prefix: Prefix, tasks: Sequence[Task], beams: Beams) -> Beams: ...


@dataclass(frozen=True, eq=False)
class Search:
    """All tasks advance together, one pass of the LM a token."""

    limits: Limits
    script: Script
    choose: Choose
    read: Read
    look: Look | None = None

    @torch.no_grad()
    def __call__(self, prefix: Prefix, tasks: Sequence[Task], best: int) -> list[list[Hypothesis]]:
        """The best so many whole texts of each task behind its row of the prefix; if none, the best unfinished."""
        offers = Offers(self.limits, self.script, tasks)
        beams: Beams = {n: [Hypothesis((), 0.0, task.clauses.start)] for n, task in enumerate(tasks)}
        done: list[list[Hypothesis]] = [[] for _ in tasks]
        rest = dict(beams)
        for length in range(1, self.limits.max_length + 1):
            rows = [(n, old) for n, beam in beams.items() for old in beam]
            pools, whole = offers(prefix, rows)
            for n, texts in whole.items():
                done[n] += texts
            rest |= {n: pool.best(1) for n, pool in pools.items()}
            pools = {n: pool for n, pool in pools.items() if not self._settled(done[n], pool, best)}
            if not pools or length == self.limits.max_length or prefix.mask.shape[1] >= prefix.lm.window:
                break
            beams, prefix = self._advance(prefix, tasks, pools)
        return [
            sorted(whole, key=self.limits.merit, reverse=True)[:best] or [max(rest[n], key=_unfinished)]
            for n, whole in enumerate(done)
        ]

    def _settled(self, done: Sequence[Hypothesis], going: Pool, best: int) -> bool:
        """No hypothesis can still become one of the best: log P only falls, and no text gets longer than allowed."""
        if len(done) < best:
            return False
        bound = going.logp / math.pow(self.limits.max_length, self.limits.length_penalty)
        return sorted(map(self.limits.merit, done))[-best] >= bound

    def _advance(self, prefix: Prefix, tasks: Sequence[Task], pools: dict[int, Pool]) -> tuple[Beams, Prefix]:
        width = self.limits.width * (self.look.among if self.look else 1)
        beams: Beams = {n: pool.chosen(self.choose, tasks[n].clauses, width) for n, pool in pools.items()}
        prefix = self.read(prefix, beams)
        if self.look is None:
            return beams, prefix
        seen = self.look(prefix, tasks, _seated(beams))
        beams = {n: self.choose(tasks[n].clauses, some, self.limits.width) for n, some in seen.items()}
        return beams, prefix.select([h.row for beam in beams.values() for h in beam])


def read_on(prefix: Prefix, beams: Beams) -> Prefix:
    """One more token behind what is remembered of the parents."""
    flat = [h for beam in beams.values() for h in beam]
    last = torch.tensor([h.ids[-1] for h in flat], device=prefix.mask.device)
    return prefix.select([h.row for h in flat]).append_ids(last)


def _seated(beams: Beams) -> Beams:
    """Each hypothesis with its own row in place of its parent's."""
    rows = iter(range(sum(map(len, beams.values()))))
    return {n: [h._replace(row=next(rows)) for h in beam] for n, beam in beams.items()}


def _unfinished(hypothesis: Hypothesis) -> tuple[int, float]:
    return len(hypothesis.state.met), hypothesis.logp / max(len(hypothesis.ids), 1)
