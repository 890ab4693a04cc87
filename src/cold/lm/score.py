"""How likely an LM finds a text after what it has read."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cold.lm.prefix import Prefix
from cold.soft import pad

LOGITS = 1 << 28  # numbers looked at together


@torch.no_grad()
def log_likelihood(prefix: Prefix, texts: Sequence[Sequence[int]]) -> Tensor:
    """Summed log-probability of each row's ids behind its prefix, in fp32 [rows]; texts may differ in length."""
    longest = max(len(ids) for ids in texts)
    if longest == 0:
        return torch.zeros(len(texts), device=prefix.mask.device)
    some = max(1, LOGITS // (longest * prefix.lm.vocab))
    parts = [range(first, min(first + some, len(texts))) for first in range(0, len(texts), some)]
    if len(parts) == 1:
        return _log_likelihood(prefix, texts)
    return torch.cat([_log_likelihood(prefix.select(list(part)), [texts[row] for row in part]) for part in parts])


def _log_likelihood(prefix: Prefix, texts: Sequence[Sequence[int]]) -> Tensor:
    assert prefix.logits is not None
    device = prefix.mask.device
    ids, there = pad(texts, device)
    longest = ids.shape[1]
    positions = prefix.lengths[:, None] + torch.arange(longest, device=device)
    mask = torch.cat([prefix.mask, there.long()], 1)
    logits, _ = prefix.lm.read(prefix.lm.embed(ids), prefix.past, mask, positions)
    logits = torch.cat([prefix.logits[:, None], logits[:, :-1]], 1)
    chosen = logits.log_softmax(-1).gather(-1, ids[..., None])[..., 0]
    return (chosen * there).sum(1)
