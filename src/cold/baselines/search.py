"""A beam over token ids that must meet clauses: log P of a text, and a rule that says which hypotheses live on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from cold.baselines.hypotheses import Beams, Hypothesis, Limits, Script, Task
from cold.baselines.offers import Offers
from cold.lm.prefix import Prefix
from cold.text.clauses import Clauses

Choose = Callable[[Clauses, Sequence[Hypothesis], int], list[Hypothesis]]  # the best so many, best first
Found = dict[int, list[Hypothesis]]  # per task
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
            going, whole = self._grow(offers(prefix, rows), tasks)
            for n, texts in whole.items():
                done[n] += texts
            rest |= going
            beams = {n: found for n, found in going.items() if not self._settled(done[n], found, best)}
            if not beams or length == self.limits.max_length or prefix.mask.shape[1] >= prefix.lm.window:
                break
            beams, prefix = self._advance(prefix, tasks, beams)
        return [
            sorted(whole, key=self.limits.merit, reverse=True)[:best] or [max(rest[n], key=_unfinished)]
            for n, whole in enumerate(done)
        ]

    def _grow(self, offered: Iterable[tuple[int, Hypothesis]], tasks: Sequence[Task]) -> tuple[Found, Found]:
        """What goes on, per task, and what is whole; a text that is over before all is met is neither."""
        going: Found = {}
        whole: Found = {}
        for n, new in offered:
            if not self.script.ends(new.ids):
                going.setdefault(n, []).append(new)
            elif tasks[n].clauses.satisfied(new.state) and len(new.ids) >= self.limits.min_length:
                whole.setdefault(n, []).append(new)
        return going, whole

    def _settled(self, done: Sequence[Hypothesis], going: Sequence[Hypothesis], best: int) -> bool:
        """No hypothesis can still become one of the best: log P only falls, and no text gets longer than allowed."""
        if not going or len(done) < best:
            return not going
        bound = max(h.logp for h in going) / math.pow(self.limits.max_length, self.limits.length_penalty)
        return sorted(map(self.limits.merit, done))[-best] >= bound

    def _advance(self, prefix: Prefix, tasks: Sequence[Task], found: Beams) -> tuple[Beams, Prefix]:
        among = self.look.among if self.look else 1
        beams = self._best(tasks, found, self.limits.width * among)
        prefix = self.read(prefix, beams)
        if self.look is None:
            return beams, prefix
        beams = self._best(tasks, self.look(prefix, tasks, _seated(beams)), self.limits.width)
        return beams, prefix.select([h.row for beam in beams.values() for h in beam])

    def _best(self, tasks: Sequence[Task], found: Beams, count: int) -> Beams:
        return {n: self.choose(tasks[n].clauses, some, count) for n, some in found.items()}


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
