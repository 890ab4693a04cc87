"""What may follow each hypothesis: its best tokens, those of its unmet phrases and, when all are met, the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cold.baselines.hypotheses import Found, Limits, Pool, Rows, Script, Task
from cold.lm.prefix import Prefix
from cold.text.clauses import START, State
from cold.text.complete import repeats

NEVER = -float("inf")
OTHER = -2  # stands for any token that no phrase has
Numbers = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Offers:
    """All continuations of a step as tables [rows, tokens]; most of them never become a hypothesis of their own."""

    limits: Limits
    script: Script
    tasks: Sequence[Task]

    def __call__(self, prefix: Prefix, rows: Rows) -> tuple[dict[int, Pool], Found]:
        """What goes on, per task, and what is whole; a text that is over before all is met is neither."""
        logp, task = self._log_probs(prefix, rows), np.array([n for n, _ in rows])
        tokens, values = self._offered(logp, rows)
        values = values + np.array([old.logp for _, old in rows])[:, None]
        worth = (values > NEVER) & (values >= self._floors(logp, rows, task)[:, None])
        number, whole = _Numbered(self.tasks), Found()
        state = np.repeat(np.array([[number(n, old.state, OTHER)] for n, old in rows]), tokens.shape[1], 1)
        for row, k in np.argwhere(worth & self._phrased[task[:, None], tokens]).tolist():
            n, old = rows[row]
            state[row, k] = number(n, old.state, int(tokens[row, k]))
        for row, k in np.argwhere(worth & self._final[tokens]).tolist():
            n, old = rows[row]
            new = old.then(row, int(tokens[row, k]), float(values[row, k]), number.states[state[row, k]][1])
            if self.script.ends(new.ids):
                worth[row, k] = False
                if self.tasks[n].clauses.satisfied(new.state) and len(new.ids) >= self.limits.min_length:
                    whole.setdefault(n, []).append(new)
        return self._pools(rows, number, worth, (state, tokens, values)), whole

    def _pools(
        self, rows: Rows, number: _Numbered, worth: npt.NDArray[np.bool_], table: tuple[Numbers, Numbers, Values]
    ) -> dict[int, Pool]:
        """Each task's continuations by the state they come to, the best first."""
        state, tokens, values = table[0][worth], table[1][worth], table[2][worth]
        order = np.lexsort((-values, state))
        row, state, tokens, values = worth.nonzero()[0][order], state[order], tokens[order], values[order]
        pools = {n: Pool(rows) for n, _ in rows}
        edges = [*np.flatnonzero(np.diff(state, prepend=-1)).tolist(), len(state)]
        for first, end in pairwise(edges):
            n, kind = number.states[state[first]]
            pools[n].groups[kind] = (row[first:end], tokens[first:end], values[first:end])
        return {n: pool for n, pool in pools.items() if pool.groups}

    def _log_probs(self, prefix: Prefix, rows: Rows) -> Tensor:
        """The LM's log-probabilities of the next token [rows, vocab], less what must not come there."""
        assert prefix.logits is not None
        barred = self.script.never.expand(len(rows), -1)
        if not rows[0][1].ids:
            barred = barred | ~torch.stack([self.tasks[n].openers for n, _ in rows])
        closed = torch.tensor([old.closed for _, old in rows], device=barred.device)
        logp = prefix.logits.log_softmax(-1).masked_fill_(barred | (closed[:, None] & self.script.glue), NEVER)
        pairs = [
            (row, token)
            for row, (n, old) in enumerate(rows)
            for token in {*self._said(n, old.ids), *self.tasks[n].clauses.forbidden(old.state)}
        ]
        if pairs:
            logp[torch.tensor(pairs, device=logp.device).unbind(1)] = NEVER
        return logp

    def _said(self, n: int, ids: tuple[int, ...]) -> list[int]:
        """Tokens that would repeat the text or copy the left one."""
        again, echo = repeats(ids, self.limits.no_repeat), self.limits.echo
        if not 0 < echo <= len(ids) + 1:
            return again
        left = self.tasks[n].left
        border = repeats((*left[max(0, len(left) - echo + 1) :], *ids), echo)
        return again + border + self._copies[left].get(ids[len(ids) - echo + 1 :], [])

    @cached_property
    def _copies(self) -> dict[tuple[int, ...], dict[tuple[int, ...], list[int]]]:
        """Per left text: what follows each `echo` - 1 tokens of it."""
        size, found = self.limits.echo - 1, dict[tuple[int, ...], dict[tuple[int, ...], list[int]]]()
        for left in {task.left for task in self.tasks}:
            following = found.setdefault(left, {})
            for i in range(len(left) - size):
                following.setdefault(left[i : i + size], []).append(left[i + size])
        return found

    def _offered(self, logp: Tensor, rows: Rows) -> tuple[Numbers, Values]:
        """The best `width` tokens of each hypothesis, then what it should come to; NEVER where there is no more."""
        width, vocab = self.limits.width, logp.shape[-1]
        top = logp.topk(min(width * self.limits.early_stop, vocab), dim=-1)
        over = [self.tasks[n].clauses.satisfied(old.state) for n, old in rows]
        states = dict.fromkeys((n, old.state) for n, old in rows)
        wanted = {(n, state): self.tasks[n].clauses.next_tokens(state) for n, state in states}
        asked = [
            self.script.stops if ready else wanted[n, old.state] for (n, old), ready in zip(rows, over, strict=True)
        ]
        most = max(1, *map(len, asked))
        index = torch.tensor([[*some, *[0] * (most - len(some))] for some in asked], device=logp.device)
        sizes = torch.tensor([len(some) for some in asked], device=logp.device)
        best, values = top.indices[:, :width], logp.gather(-1, index)
        there = torch.arange(most, device=logp.device) < sizes[:, None]
        there &= (index[..., None] != best[:, None]).all(-1)  # not offered already
        there &= ~torch.tensor(over, device=logp.device)[:, None] | (values >= top.values[:, -1:])
        values = torch.cat([top.values[:, :width], values.masked_fill(~there, NEVER)], 1)
        return torch.cat([best, index], 1).cpu().numpy(), values.double().cpu().numpy()

    def _floors(self, logp: Tensor, rows: Rows, task: Numbers) -> Values:
        """Per row the score of its task's `prune_factor`-th best continuation; with fewer nothing is pruned."""
        _, first, seat, sizes = np.unique(task, return_index=True, return_inverse=True, return_counts=True)
        most, vocab = int(sizes.max()), logp.shape[-1]
        above = most * vocab - self.limits.prune_factor
        if above <= 0:
            return np.full(len(rows), NEVER)
        where = torch.as_tensor(np.stack([seat, np.arange(len(rows)) - first[seat]]), device=logp.device)
        before = torch.tensor([old.logp for _, old in rows], device=logp.device)
        scores = torch.full((len(sizes), most, vocab), NEVER, device=logp.device)
        scores[where[0], where[1]] = logp + before[:, None]
        floors: Values = scores.flatten(1).kthvalue(above + 1).values.double().cpu().numpy()
        return floors[seat]

    @cached_property
    def _phrased(self) -> npt.NDArray[np.bool_]:
        """Tokens of a task's phrases [tasks, vocab]: all others lead to one state."""
        found = np.zeros((len(self.tasks), len(self.script.never)), dtype=bool)
        for n, task in enumerate(self.tasks):
            phrases = [phrase for clause in task.clauses.clauses for phrase, _ in clause]
            found[n, [token for phrase in phrases for token in phrase if token != START]] = True
        return found

    @cached_property
    def _final(self) -> npt.NDArray[np.bool_]:
        """Tokens that may be the last [vocab]."""
        found: npt.NDArray[np.bool_] = self.script.final.cpu().numpy()
        return found


@dataclass(frozen=True, eq=False)
class _Numbered:
    """The states of all tasks by numbers, in the order in which they were first come to."""

    tasks: Sequence[Task]
    states: list[tuple[int, State]] = field(default_factory=list)
    known: dict[tuple[int, State], int] = field(default_factory=dict)
    moves: dict[tuple[int, State, int], int] = field(default_factory=dict)

    def __call__(self, n: int, state: State, token: int) -> int:
        """Of the state that the token leads to."""
        move = (n, state, token)
        if move not in self.moves:
            new = (n, self.tasks[n].clauses.advance(state, token))
            if new not in self.known:
                self.known[new] = len(self.states)
                self.states.append(new)
            self.moves[move] = self.known[new]
        return self.moves[move]
