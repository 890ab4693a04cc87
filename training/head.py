"""Cross-entropy over a large vocabulary in chunks, under a table of which some rows may be trained."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

CHUNK = 16384  # positions whose logits exist at once


def chunk_loss(
    hidden: Tensor, table: Tensor, targets: Tensor, taught: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Summed -log softmax(h E^T)[target], its gradient in h, and in the rows of the taught words."""
    logits = (hidden @ table.T).float()
    log_probs = logits.log_softmax(-1)
    loss = -log_probs.gather(-1, targets[:, None]).sum()
    words = torch.arange(table.shape[0], device=table.device)
    slope = (log_probs.exp() - (words == targets[:, None]).float()).to(table.dtype)
    return loss, slope @ table, None if taught is None else slope[:, taught].T @ hidden


class Head(torch.autograd.Function):
    """Mean cross-entropy, chunk by chunk: the forward pass makes the gradients, so no chunk's logits are kept."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        rows: Tensor | None,
        table: Tensor,
        taught: Tensor | None,
        targets: Tensor,
        kernel: Any,
    ) -> Tensor:
        hidden = hidden.to(table.dtype)
        pieces = zip(hidden.split(CHUNK), targets.split(CHUNK), strict=True)
        losses, slopes, turns = zip(*(kernel(h, table, t, taught) for h, t in pieces), strict=True)
        turn = None if taught is None else torch.stack([each.float() for each in turns]).sum(0) / len(targets)
        ctx.save_for_backward(torch.cat(slopes) / len(targets), turn)
        return torch.stack(losses).sum() / len(targets)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        slope, turn = ctx.saved_tensors
        return (slope * grads[0]).float(), None if turn is None else turn * grads[0], None, None, None, None
