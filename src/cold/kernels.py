"""Sums over the vocabulary, with derivatives by hand: fewer passes over [rows, length, vocab] than autograd."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor


@cache
def compiled(device: torch.device) -> bool:
    """Whether the kernels of cold.gpu run there."""
    return device.type == "cuda" and find_spec("triton") is not None


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


class _Level(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor) -> Tensor:
        found = _level(logits)
        ctx.save_for_backward(logits, found)
        return found

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        logits, found = ctx.saved_tensors
        return _share(logits, found, grads[0])


class _Agreement(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, expected: Tensor, logits: Tensor) -> Tensor:
        if compiled(logits.device):
            from cold.gpu.vocabulary import agree

            found, level = agree(expected, logits)
            ctx.save_for_backward(expected, logits, found, level)
            return found
        probs = expected.softmax(-1)
        ctx.save_for_backward(probs, logits)
        return (probs * logits).sum(-1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        if compiled(grads[0].device):
            from cold.gpu.vocabulary import agree_back

            expected, logits, found, level = ctx.saved_tensors
            return agree_back(expected, logits, found, level, grads[0], ctx.needs_input_grad)
        (probs, logits), slope = ctx.saved_tensors, grads[0][..., None]
        turn = probs * slope
        if not ctx.needs_input_grad[0]:
            return None, turn
        return torch._softmax_backward_data((logits * slope).to(probs.dtype), probs, -1, probs.dtype), turn


class _Chosen(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, ids: Tensor) -> Tensor:
        level = _level(logits)
        ctx.save_for_backward(logits, level, ids)
        return logits.gather(-1, ids[..., None])[..., 0] - level

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        logits, level, ids = ctx.saved_tensors
        slope = _share(logits, level, -grads[0])
        return slope.scatter_add_(-1, ids[..., None], grads[0][..., None]), None


def _level(logits: Tensor) -> Tensor:
    if compiled(logits.device):
        from cold.gpu.vocabulary import level

        return level(logits)
    return logits.amax(-1) - logits.softmax(-1).amax(-1).log()  # fewer passes than logsumexp


def _share(logits: Tensor, level: Tensor, factor: Tensor) -> Tensor:
    """exp(logits - level) factor: the softmax, scaled."""
    if compiled(logits.device):
        from cold.gpu.vocabulary import share

        return share(logits, level, factor)
    return logits.softmax(-1).mul_(factor[..., None])


class _WideProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, first: int, size: int) -> Tensor:
        ctx.weight, ctx.first, ctx.like = weight, first, states.dtype
        return _wide(states, weight.T)[:, first : first + size]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return _fill(grads[0], ctx.first, len(ctx.weight), ctx.like) @ ctx.weight, None, None, None


class _MeanRow(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, probs: Tensor, table: Tensor) -> Tensor:
        ctx.table, ctx.size = table, probs.shape[-1]
        flat = _fill(probs.flatten(0, -2), 0, len(table), table.dtype)
        return (flat @ table).view(*probs.shape[:-1], table.shape[1])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        flat = grads[0].flatten(0, -2)
        return _wide(flat, ctx.table.T)[:, : ctx.size].view(*grads[0].shape[:-1], ctx.size), None


def _wide(a: Tensor, b: Tensor) -> Tensor:
    """a @ b in fp32: a GPU sums narrow numbers that way and need not round the sums again."""
    if a.is_cuda and a.dtype in (torch.bfloat16, torch.float16):
        out: Tensor = torch.mm(a, b, out_dtype=torch.float32)
        return out
    return (a @ b).float()


def _fill(values: Tensor, first: int, size: int, dtype: torch.dtype) -> Tensor:
    """`values` [n, m] as columns from `first` on of a matrix [n, size] that is 0 elsewhere."""
    n, m = values.shape
    if m == size:
        return values.to(dtype)
    out = torch.zeros(n, size, dtype=dtype, device=values.device)
    out[:, first : first + m] = values
    return out


def wide_product(states: Tensor, weight: Tensor, first: int, size: int) -> Tensor:
    """states [n, width] times rows first .. first + size of weight, in fp32 [n, size]."""
    out: Tensor = _WideProduct.apply(states, weight, first, size)  # type: ignore[no-untyped-call]
    return out


def mean_row(probs: Tensor, table: Tensor) -> Tensor:
    """sum_v probs_v table_v [..., width]; rows of the table beyond the probabilities count nothing."""
    out: Tensor = _MeanRow.apply(probs, table)  # type: ignore[no-untyped-call]
    return out


def soft_tokens(logits: Tensor, temperature: float, straight_through: bool) -> Tensor:
    """softmax(logits / temperature); straight through, its slope lacks the 1 / temperature."""
    out: Tensor = _SoftTokens.apply(logits, temperature, straight_through)  # type: ignore[no-untyped-call]
    return out


def chosen(logits: Tensor, ids: Tensor) -> Tensor:
    """log softmax(logits) at `ids`, one for each row of the last axis."""
    out: Tensor = _Chosen.apply(logits, ids)  # type: ignore[no-untyped-call]
    return out


def level(logits: Tensor) -> Tensor:
    """log sum_v exp(logits_v): what a logit stands above when its log-probability is taken."""
    out: Tensor = _Level.apply(logits)  # type: ignore[no-untyped-call]
    return out


def agreement(expected: Tensor, logits: Tensor) -> Tensor:
    """sum_v softmax(expected)_v logits_v over the last axis."""
    out: Tensor = _Agreement.apply(expected, logits)  # type: ignore[no-untyped-call]
    return out
