"""A soft sequence: one row of token logits per position, y~ = (y~_1, ..., y~_T), each in R^V (section 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property

import torch
from torch import Tensor

from cold.kernels import level

SHARPNESS = 20.0  # nats between a chosen token and the rest when a hard text is seen as a soft sequence


class SoftSequence:
    """Logits [batch, length, vocab]. Constraints read it; only the sampler writes it."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits
        self._made: dict[Hashable, Tensor] = {}

    @classmethod
    def of_ids(cls, ids: Sequence[Sequence[int]], vocab: int, device: torch.device) -> SoftSequence:
        """Texts of one length as soft sequences that are (almost) one-hot."""
        index = torch.tensor(ids, device=device).unsqueeze(-1)
        logits = torch.zeros(*index.shape[:2], vocab, device=device)
        return cls(logits.scatter_(-1, index, SHARPNESS))

    @property
    def rows(self) -> int:
        return self.logits.shape[0]

    @property
    def length(self) -> int:
        return self.logits.shape[1]

    @cached_property
    def log_probs(self) -> Tensor:
        """log softmax(y~), shared by all terms of one step; where a few tokens will do, `log_probs_of` is cheaper."""
        return self.logits.log_softmax(-1)

    @cached_property
    def level(self) -> Tensor:
        """log sum_v exp y~(v) [batch, length]: a logit less this is a log-probability."""
        return level(self.logits)

    def log_probs_of(self, index: Tensor) -> Tensor:
        """log softmax(y~) of some tokens at each position [batch, length, n]."""
        return self.logits.gather(-1, index) - self.level[..., None]

    def once(self, key: Hashable, make: Callable[[], Tensor]) -> Tensor:
        """What several readers of one step share: made by the first, with or without a graph as it asks for one."""
        key = (key, torch.is_grad_enabled())
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    @property
    def ids(self) -> Tensor:
        """The most likely token at each position [batch, length]."""
        return self.logits.argmax(-1)

    def entropy(self) -> Tensor:
        """Mean entropy of the token distributions, in nats, per row."""
        with torch.no_grad():
            logp = self.log_probs
            return -(logp.exp() * logp).sum(-1).mean(-1)


def expand(values: Tensor, rows: int) -> Tensor:
    """One entry per example -> one per row; rows are examples x samples, an example's samples side by side."""
    return values.repeat_interleave(rows // values.shape[0], 0)


def pad(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Ids of different lengths as one table [rows, n], zeros behind the shorter ones, and where there is a token."""
    longest = max(map(len, rows))
    ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows], dtype=torch.long, device=device)
    sizes = torch.tensor([len(row) for row in rows], device=device)
    return ids.view(len(rows), longest), torch.arange(longest, device=device) < sizes[:, None]
