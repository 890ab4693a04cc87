"""What may follow each hypothesis: its best tokens, those of its unmet phrases and, when all are met, the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cold.baselines.hypotheses import Hypothesis, Limits, Script, Task
from cold.lm.prefix import Prefix
from cold.text.complete import repeats

NEVER = -float("inf")
Rows = Sequence[tuple[int, Hypothesis]]  # a task's number and one of its hypotheses, as the prefix has them


@dataclass(frozen=True, eq=False)
class Offers:
    limits: Limits
    script: Script
    tasks: Sequence[Task]

    def __call__(self, prefix: Prefix, rows: Rows) -> Iterator[tuple[int, Hypothesis]]:
        """Every continuation worth a look, with its task."""
        logp = self._log_probs(prefix, rows)
        floors = self._floors(logp, rows)
        for row, ((n, old), offered) in enumerate(zip(rows, self._offered(logp, rows), strict=True)):
            for token, value in offered.items():
                if value > NEVER and old.logp + value >= floors[n]:
                    state = self.tasks[n].clauses.advance(old.state, token)
                    closed = state.met > old.state.met
                    yield n, Hypothesis((*old.ids, token), old.logp + value, state, row, closed)

    def _log_probs(self, prefix: Prefix, rows: Rows) -> Tensor:
        """The LM's log-probabilities of the next token [rows, vocab], less what must not come there."""
        assert prefix.logits is not None
        barred = self.script.never.expand(len(rows), -1)
        if not rows[0][1].ids:
            barred = barred | ~torch.stack([self.tasks[n].openers for n, _ in rows])
        closed = torch.tensor([old.closed for _, old in rows], device=barred.device)
        logp = prefix.logits.log_softmax(-1).masked_fill(barred | (closed[:, None] & self.script.glue), NEVER)
        pairs = [
            (row, token)
            for row, (n, old) in enumerate(rows)
            for token in {*self._said(n, old.ids), *self.tasks[n].clauses.forbidden(old.state)}
        ]
        if pairs:
            where = torch.tensor(pairs, device=logp.device)
            logp[where[:, 0], where[:, 1]] = NEVER
        return logp

    def _said(self, n: int, ids: tuple[int, ...]) -> list[int]:
        """Tokens that would repeat the text or copy the left one."""
        again, echo = repeats(ids, self.limits.no_repeat), self.limits.echo
        return again + repeats((*self.tasks[n].left, *ids), echo) if 0 < echo <= len(ids) + 1 else again

    def _offered(self, logp: Tensor, rows: Rows) -> list[dict[int, float]]:
        """The best `width` tokens of each hypothesis, among them the best of all, and what it should come to."""
        width, vocab = self.limits.width, logp.shape[-1]
        top = logp.topk(min(width * self.limits.early_stop, vocab), dim=-1)
        least = top.values[:, -1].tolist()
        best = zip(top.indices[:, :width].tolist(), top.values[:, :width].tolist(), strict=True)
        over = [self.tasks[n].clauses.satisfied(old.state) for n, old in rows]
        asked = [
            self.script.stops if ready else self.tasks[n].clauses.next_tokens(old.state)
            for (n, old), ready in zip(rows, over, strict=True)
        ]
        most = max(1, *map(len, asked))
        index = torch.tensor([[*some, *[0] * (most - len(some))] for some in asked], device=logp.device)
        values = logp.gather(-1, index).tolist()
        offers = [dict(zip(*found, strict=True)) for found in best]
        for row, some in enumerate(asked):
            lowest = least[row] if over[row] else NEVER
            offers[row] |= {t: value for t, value in zip(some, values[row], strict=False) if value >= lowest}
        return offers

    def _floors(self, logp: Tensor, rows: Rows) -> dict[int, float]:
        """Per task the score of its `prune_factor`-th best continuation; with fewer nothing is pruned."""
        floors: dict[int, float] = {}
        for n in dict.fromkeys(n for n, _ in rows):
            own = [row for row, (m, _) in enumerate(rows) if m == n]
            above = len(own) * logp.shape[-1] - self.limits.prune_factor
            floors[n] = NEVER
            if above > 0:
                before = torch.tensor([rows[row][1].logp for row in own], device=logp.device)
                floors[n] = float((logp[own[0] : own[-1] + 1] + before[:, None]).flatten().kthvalue(above + 1).values)
        return floors
