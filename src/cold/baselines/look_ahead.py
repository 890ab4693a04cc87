"""Look ahead: h = max over unmet phrases and offsets of the mean log-probability of the phrase behind a greedy text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cold.baselines.hypotheses import Beams, Task
from cold.lm.prefix import Prefix
from cold.lm.score import likelihoods
from cold.tasks.many import device_memory
from cold.text.clauses import Phrase

SHARE = 8  # one part in so many of the memory is for keys and values of what is looked at together
NEVER = -float("inf")
Ways = Sequence[tuple[Phrase, bool]]  # tokens that should come next, and whether they must come at once


@dataclass(frozen=True, eq=False)
class LookAhead:
    """The LM writes `steps` tokens of its own behind every hypothesis; each phrase may come at any point of that.

    A phrase that is half written counts only at once. A hypothesis that has all it needs gets 0, the most there is.
    Published for every candidate; here for the best `among` times the width, since each costs `steps` passes.
    """

    steps: int
    never: Tensor  # tokens that are never written [vocab]
    among: int = 3

    @torch.no_grad()
    def __call__(self, prefix: Prefix, tasks: Sequence[Task], beams: Beams) -> Beams:
        states = [(n, h.state) for n, beam in beams.items() for h in beam]
        known = {(n, state): tasks[n].clauses.missing(state) for n, state in dict.fromkeys(states)}
        missing = [known[state] for state in states]
        rows = [row for row, ways in enumerate(missing) if ways]
        best, some = [0.0] * len(missing), self._together(prefix)
        for part in (rows[first : first + some] for first in range(0, len(rows), some)):
            values = self._values(prefix.select(part), [missing[row] for row in part]).tolist()
            for row, value in zip(part, values, strict=True):
                best[row] = value
        found = iter(best)
        return {n: [h._replace(ahead=next(found)) for h in beam] for n, beam in beams.items()}

    def _values(self, prefix: Prefix, missing: Sequence[Ways]) -> Tensor:
        """The best mean log-probability of any way of each row, at any offset [rows]."""
        asked = [(row, rest, once) for row, ways in enumerate(missing) for rest, once in ways]
        later = [(row, rest) for row, rest, once in asked if not once]
        longest = max(len(rest) for _, rest, _ in asked)
        best = torch.full((prefix.rows,), NEVER, device=prefix.mask.device)
        now, then = (_Asked(some, prefix) for some in ([(row, rest) for row, rest, _ in asked], later))
        for offset in range(self.steps + 1):
            (then if offset else now).raise_(best, prefix)
            if offset == self.steps or prefix.mask.shape[1] + longest >= prefix.lm.window:
                break
            assert prefix.logits is not None
            prefix = prefix.append_ids(prefix.logits.masked_fill(self.never, NEVER).argmax(-1))
        return best

    def _together(self, prefix: Prefix) -> int:
        """Rows whose keys and values, copied at every step, fit into the memory."""
        size = sum((k[0].numel() + v[0].numel()) * k.element_size() for k, v in prefix.past)
        return max(1, device_memory(prefix.mask.device) // SHARE // max(size, 1))


class _Asked:
    """Phrases and the rows where each should come next; what does not change between offsets is made once."""

    def __init__(self, asked: Sequence[tuple[int, Phrase]], prefix: Prefix) -> None:
        device = prefix.mask.device
        self.longer = [(row, rest) for row, rest in asked if len(rest) > 1]
        short = torch.tensor([(row, rest[0]) for row, rest in asked if len(rest) == 1], device=device).view(-1, 2)
        self.rows, self.tokens = short.long().unbind(1)
        self.longer_rows = torch.tensor([row for row, _ in self.longer], dtype=torch.long, device=device)
        self.sizes = torch.tensor([len(rest) for _, rest in self.longer], device=device)

    def raise_(self, best: Tensor, prefix: Prefix) -> None:
        """To what is found behind the prefix; most are one token, which need not be read to say how likely it is."""
        if len(self.rows):
            assert prefix.logits is not None
            values = prefix.logits.log_softmax(-1)[self.rows, self.tokens]
            best.scatter_reduce_(0, self.rows, values, "amax")
        if self.longer:
            totals = likelihoods(prefix, [row for row, _ in self.longer], [rest for _, rest in self.longer])
            best.scatter_reduce_(0, self.longer_rows, totals / self.sizes, "amax")
