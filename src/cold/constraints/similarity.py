"""N-gram similarity f_sim(y~; y*): differentiable matching of the reference's n-grams (Eq. 5; Liu et al. 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from cold.constraints.base import Constraint, Random, Readings
from cold.errors import ColdError
from cold.lm.candidates import NEVER
from cold.lm.context import Context, Wish
from cold.soft import SoftSequence, expand, pad


@dataclass(frozen=True, eq=False)
class Similarity(Constraint):
    """The log-probability of each n-gram of the target at a softly chosen position, averaged over the n-grams.

    With S_ij the mean log-probability of the n-gram at target position j standing at output position i:
    f_n = mean_j sum_i w_ij S_ij, w_.j = softmax_i(S_ij); f = mean of f_n over the orders n that fit the row.
    As released: `gumbel` (noise inside the softmax), `floor` (log-probabilities are cut at -20) and `within`
    (y~ cut to the candidate set of that context first).
    """

    targets: Sequence[Sequence[int]]  # token ids, one reference per example
    n: Sequence[int] = (1,)
    name: str = "similarity"
    gumbel: bool = False
    floor: float | None = None
    within: Context | None = None
    placed: dict[torch.device, tuple[Tensor, Tensor]] = field(default_factory=dict, init=False, repr=False)

    wish = Wish(False, False, False, False)  # of a context it takes the candidates only, which have no gradient

    def __post_init__(self) -> None:
        if not self.n or min(self.n) < 1:
            raise ColdError(f"term {self.name!r} has n-gram orders {list(self.n)}: give whole numbers from 1 up")
        self._check_orders(max(self.n))

    @property
    def contexts(self) -> tuple[Context, ...]:  # type: ignore[override]
        return (self.within,) if self.within else ()

    @property
    def examples(self) -> int:  # type: ignore[override]
        return len(self.targets)

    def check(self, rows: int, length: int) -> None:
        self._check_orders(length)

    def score(self, y: SoftSequence, readings: Readings, random: Random) -> Tensor:
        matches, mask = self._token_matches(y, readings)
        sizes = mask.sum(1)
        summed = torch.zeros_like(matches[:, 0, 0])
        fitting = torch.zeros_like(summed)
        for n in self.n:
            if n > min(matches.shape[1:]):
                continue
            fits = (sizes >= n).float()
            summed = summed + fits * self._order(matches, mask, n, random)
            fitting = fitting + fits
        return summed / fitting

    def _token_matches(self, y: SoftSequence, readings: Readings) -> tuple[Tensor, Tensor]:
        """C_ij: the log-probability of target token j at output position i [rows, T, K], and the targets' mask."""
        targets, mask = (expand(part, y.rows) for part in self._padded(y.logits.device))
        index = targets[:, None].expand(-1, y.length, -1)
        candidates = readings[self.within].candidates if self.within else None
        if candidates is None:
            matches = y.log_probs_of(index)
        else:
            chosen = y.logits.gather(-1, index).masked_fill(~candidates.has(targets), NEVER)
            matches = chosen - candidates.pick(y.logits).logsumexp(-1, keepdim=True)
        return matches if self.floor is None else matches.clamp(min=self.floor), mask

    def _padded(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """The targets and their mask [examples, K], put on the device once: a step must copy nothing there."""
        if device not in self.placed:
            ids, there = pad(self.targets, device)
            self.placed[device] = ids, there.float()
        return self.placed[device]

    def _order(self, matches: Tensor, mask: Tensor, n: int, random: Random) -> Tensor:
        """f_n, with the n-grams as diagonals of length n in the matrix of matches."""
        positions, grams = matches.shape[1] - n + 1, matches.shape[2] - n + 1
        diagonals = sum(matches[:, m : m + positions, m : m + grams] for m in range(n)) / n
        assert isinstance(diagonals, Tensor)
        preference = diagonals
        if self.gumbel:
            preference = diagonals + random.gumbel(f"{self.name}.{n}", (positions, grams))
        best = (preference.softmax(1) * diagonals).sum(1)
        whole = mask[:, n - 1 :]  # an n-gram is whole if its last token is
        return (best * whole).sum(1) / whole.sum(1).clamp(min=1)

    def _check_orders(self, length: int) -> None:
        for row, ids in enumerate(self.targets):
            if not ids:
                raise ColdError(f"term {self.name!r}: target {row} is empty: give it at least one word")
            if min(self.n) > min(length, len(ids)):
                raise ColdError(
                    f"term {self.name!r}: no n-gram order of {list(self.n)} fits a target of {len(ids)} tokens "
                    f"in a sequence of {length}: use smaller orders or a longer text"
                )
