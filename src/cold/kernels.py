"""Two sums over the vocabulary, with derivatives by hand: fewer passes over [rows, length, vocab] than autograd."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _SoftTokens(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, temperature: float, straight_through: bool) -> Tensor:
        probs = logits.softmax(-1) if temperature == 1.0 else (logits / temperature).softmax(-1)
        ctx.save_for_backward(probs)
        ctx.slope = 1.0 if straight_through else 1.0 / temperature
        return probs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (probs,) = ctx.saved_tensors
        slope = torch._softmax_backward_data(grads[0], probs, -1, probs.dtype)
        return slope if ctx.slope == 1.0 else slope.mul_(ctx.slope), None, None


class _Agreement(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, expected: Tensor, log_probs: Tensor) -> Tensor:
        probs = expected.softmax(-1)
        agreement = (probs * log_probs).sum(-1)
        ctx.save_for_backward(probs, log_probs, agreement)
        return agreement

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        probs, log_probs, agreement = ctx.saved_tensors
        turn = probs * grads[0][..., None] if any(ctx.needs_input_grad) else None
        if not ctx.needs_input_grad[0]:
            return None, turn
        return (log_probs - agreement[..., None]).mul_(turn), turn


def soft_tokens(logits: Tensor, temperature: float, straight_through: bool) -> Tensor:
    """softmax(logits / temperature); straight through, its slope lacks the 1 / temperature."""
    out: Tensor = _SoftTokens.apply(logits, temperature, straight_through)  # type: ignore[no-untyped-call]
    return out


def agreement(expected: Tensor, log_probs: Tensor) -> Tensor:
    """sum_v softmax(expected)_v log_probs_v over the last axis."""
    out: Tensor = _Agreement.apply(expected, log_probs)  # type: ignore[no-untyped-call]
    return out
