"""The few tokens that a position may still become: the LM's k best of the step before, and some that always may."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

NEVER = -1e10  # the published code's logit of a token outside the candidate set


class Candidates(NamedTuple):
    """Per position a list of ids, not a mask as wide as the vocabulary: k numbers are read instead of 50,000."""

    ids: Tensor  # [rows, length, k]
    allowed: Tensor  # the same shape; False where a token stands in the list twice

    @classmethod
    def best(cls, logits: Tensor, k: int, widen: Candidates | None) -> Candidates:
        """The k largest of logits [rows, length, vocab], and `widen` [rows, 1, n]."""
        ids = logits.topk(min(k, logits.shape[-1]), dim=-1).indices
        allowed = torch.ones_like(ids, dtype=torch.bool)
        if widen is None:
            return cls(ids, allowed)
        more = widen.ids.expand(-1, ids.shape[1], -1)
        fresh = (more[..., :, None] != ids[..., None, :]).all(-1) & widen.allowed
        return cls(torch.cat([ids, more], -1), torch.cat([allowed, fresh], -1))

    def pick(self, values: Tensor) -> Tensor:
        """Of values [rows, length, vocab] those of the candidates [rows, length, k], and NEVER elsewhere."""
        return values.gather(-1, self.ids).masked_fill(~self.allowed, NEVER)

    def has(self, ids: Tensor) -> Tensor:
        """Whether each of ids [rows, n] may stand at each position [rows, length, n]."""
        same = self.ids[..., None] == ids[:, None, None]
        return (same & self.allowed[..., None]).any(2)

    def sets(self) -> list[list[set[int]]]:
        """For people: the candidates of each row and position."""
        rows = zip(self.ids.tolist(), self.allowed.tolist(), strict=True)
        return [
            [{i for i, ok in zip(ids, oks, strict=True) if ok} for ids, oks in zip(*row, strict=True)] for row in rows
        ]


def top_k_mask(logits: Tensor, k: int) -> Tensor:
    """True at the k largest entries of the last axis."""
    best = logits.topk(min(k, logits.shape[-1]), dim=-1).indices
    return torch.zeros_like(logits, dtype=torch.bool).scatter_(-1, best, True)
