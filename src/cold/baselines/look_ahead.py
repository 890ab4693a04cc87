"""Look ahead: h = max over unmet phrases and offsets of the mean log-probability of the phrase behind a greedy text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cold.baselines.hypotheses import Beams, Task
from cold.lm.prefix import Prefix
from cold.lm.score import log_likelihood
from cold.text.clauses import Phrase

Asked = list[tuple[int, Phrase]]  # a row and tokens that should come next there


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
        missing = [tasks[n].clauses.missing(h.state) for n, beam in beams.items() for h in beam]
        longest = max((len(rest) for ways in missing for rest, _ in ways), default=0)
        best = [-float("inf") if ways else 0.0 for ways in missing]
        for offset in range(self.steps + 1 if longest else 0):
            asked = [(row, rest) for row, ways in enumerate(missing) for rest, once in ways if not (once and offset)]
            for (row, _), value in zip(asked, mean_log_probs(prefix, asked), strict=True):
                best[row] = max(best[row], value)
            if offset == self.steps or prefix.mask.shape[1] + longest >= prefix.lm.window:
                break
            assert prefix.logits is not None
            prefix = prefix.append_ids(prefix.logits.masked_fill(self.never, -float("inf")).argmax(-1))
        found = iter(best)
        return {n: [h._replace(ahead=next(found)) for h in beam] for n, beam in beams.items()}


def mean_log_probs(prefix: Prefix, asked: Asked) -> list[float]:
    """Of each phrase behind its row; most are one token, which the LM need not read to say how likely it is."""
    assert prefix.logits is not None
    firsts = torch.tensor([[row, rest[0]] for row, rest in asked], device=prefix.mask.device).view(-1, 2)
    values: list[float] = prefix.logits.log_softmax(-1)[firsts[:, 0], firsts[:, 1]].tolist()
    longer = [i for i, (_, rest) in enumerate(asked) if len(rest) > 1]
    if longer:
        rows, rests = zip(*(asked[i] for i in longer), strict=True)
        for i, total in zip(longer, log_likelihood(prefix.select(rows), rests).tolist(), strict=True):
            values[i] = total / len(asked[i][1])
    return values
