"""Attention behind a text already read; the plain version is the library's, see lm/attention.py."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

LARGEST = 1 << 14  # bytes of a step's queries of one head: what one program holds, beside keys, values and slopes
TILE = 64  # keys looked at together


@triton.jit
def _look(x, keys, bias, scale, seen, exact: tl.constexpr):
    """Scores of queries and keys, minus infinity where there is no key."""
    precision: tl.constexpr = "ieee" if exact else "tf32"
    score = tl.dot(x, tl.trans(keys), input_precision=precision) * scale + bias
    return tl.where(seen, score, float("-inf"))


@triton.jit
def _attend(
    q, k, v, ahead_k, ahead_v, mask, out, logsum, scale,
    q0, q1, q2, k0, k1, k2, v0, v1, v2, a0, a1, a2, m0, m1,
    heads, group, share, tokens, before, width,
    rows: tl.constexpr, cols: tl.constexpr, wide: tl.constexpr, exact: tl.constexpr,
):  # fmt: skip
    precision: tl.constexpr = "ieee" if exact else "tf32"
    row, head = tl.program_id(0) // heads, tl.program_id(0) % heads
    row = row.to(tl.int64)
    i, d = tl.arange(0, rows), tl.arange(0, wide)
    here, real = (i < tokens)[:, None], (d < width)[None, :]
    x = tl.load(q + row * q0 + head * q1 + i[:, None] * q2 + d[None, :], mask=here & real, other=0.0)
    best = tl.full([rows], float("-inf"), tl.float32)
    total = tl.zeros([rows], tl.float32)
    acc = tl.zeros([rows, wide], tl.float32)
    kv = head // group
    for first in range(0, before, cols):
        j = first + tl.arange(0, cols)
        there = (j < before)[:, None] & real
        place = (row // share) * a0 + kv * a1 + j[:, None] * a2 + d[None, :]
        keys = tl.load(ahead_k + place, mask=there, other=0.0)
        values = tl.load(ahead_v + place, mask=there, other=0.0)
        seen = here & (j < before)[None, :]
        bias = tl.load(mask + row * m0 + i[:, None] * m1 + j[None, :], mask=seen, other=0.0).to(tl.float32)
        score = _look(x, keys, bias, scale, (j < before)[None, :], exact)
        most = tl.maximum(best, tl.max(score, 1))
        p, old = tl.exp(score - most[:, None]), tl.exp(best - most)
        total = total * old + tl.sum(p, 1)
        acc = acc * old[:, None] + tl.dot(p.to(values.dtype), values, input_precision=precision)
        best = most
    for first in range(0, tokens, cols):
        j = first + tl.arange(0, cols)
        there = (j < tokens)[:, None] & real
        keys = tl.load(k + row * k0 + kv * k1 + j[:, None] * k2 + d[None, :], mask=there, other=0.0)
        values = tl.load(v + row * v0 + kv * v1 + j[:, None] * v2 + d[None, :], mask=there, other=0.0)
        seen = here & (j < tokens)[None, :]
        bias = tl.load(mask + row * m0 + i[:, None] * m1 + (before + j)[None, :], mask=seen, other=0.0).to(tl.float32)
        score = _look(x, keys, bias, scale, (j < tokens)[None, :], exact)
        most = tl.maximum(best, tl.max(score, 1))
        p, old = tl.exp(score - most[:, None]), tl.exp(best - most)
        total = total * old + tl.sum(p, 1)
        acc = acc * old[:, None] + tl.dot(p.to(values.dtype), values, input_precision=precision)
        best = most
    y = acc / total[:, None]
    place = ((row * tokens + i[:, None]) * heads + head) * width + d[None, :]
    tl.store(out + place, y.to(x.dtype), mask=here & real)
    tl.store(logsum + (row * heads + head) * tokens + i, best + tl.log(total), mask=i < tokens)


@triton.jit
def _attend_back(
    q, k, v, ahead_k, ahead_v, mask, out, logsum, slope, dq, dk, dv, scale,
    q0, q1, q2, k0, k1, k2, v0, v1, v2, a0, a1, a2, m0, m1,
    heads, group, share, tokens, before, width,
    rows: tl.constexpr, cols: tl.constexpr, wide: tl.constexpr, exact: tl.constexpr,
):  # fmt: skip
    """One program per row and key head: the text already read takes no gradient."""
    precision: tl.constexpr = "ieee" if exact else "tf32"
    kvs = heads // group
    row, kv = tl.program_id(0) // kvs, tl.program_id(0) % kvs
    row = row.to(tl.int64)
    i, d = tl.arange(0, rows), tl.arange(0, wide)
    here, real = (i < tokens)[:, None], (d < width)[None, :]
    keys = tl.load(k + row * k0 + kv * k1 + i[:, None] * k2 + d[None, :], mask=here & real, other=0.0)
    values = tl.load(v + row * v0 + kv * v1 + i[:, None] * v2 + d[None, :], mask=here & real, other=0.0)
    own_k = tl.zeros([rows, wide], tl.float32)
    own_v = tl.zeros([rows, wide], tl.float32)
    square = here & (i < tokens)[None, :]
    own_bias = tl.load(mask + row * m0 + i[:, None] * m1 + (before + i)[None, :], mask=square, other=0.0).to(tl.float32)
    for head in range(kv * group, kv * group + group):
        x = tl.load(q + row * q0 + head * q1 + i[:, None] * q2 + d[None, :], mask=here & real, other=0.0)
        place = ((row * tokens + i[:, None]) * heads + head) * width + d[None, :]
        pull = tl.load(slope + place, mask=here & real, other=0.0)
        said = tl.load(out + place, mask=here & real, other=0.0)
        level = tl.load(logsum + (row * heads + head) * tokens + i, mask=i < tokens, other=0.0)
        mean = tl.sum(pull.to(tl.float32) * said.to(tl.float32), 1)
        own_q = tl.zeros([rows, wide], tl.float32)
        for first in range(0, before, cols):
            j = first + tl.arange(0, cols)
            there = (j < before)[:, None] & real
            old = (row // share) * a0 + kv * a1 + j[:, None] * a2 + d[None, :]
            old_keys = tl.load(ahead_k + old, mask=there, other=0.0)
            old_values = tl.load(ahead_v + old, mask=there, other=0.0)
            seen = here & (j < before)[None, :]
            bias = tl.load(mask + row * m0 + i[:, None] * m1 + j[None, :], mask=seen, other=0.0).to(tl.float32)
            p = tl.where(seen, tl.exp(_look(x, old_keys, bias, scale, seen, exact) - level[:, None]), 0.0)
            back = tl.dot(pull, tl.trans(old_values), input_precision=precision)
            turn = p * (back - mean[:, None]) * scale
            own_q += tl.dot(turn.to(x.dtype), old_keys, input_precision=precision)
        p = tl.where(square, tl.exp(_look(x, keys, own_bias, scale, square, exact) - level[:, None]), 0.0)
        back = tl.dot(pull, tl.trans(values), input_precision=precision)
        turn = (p * (back - mean[:, None]) * scale).to(x.dtype)
        own_q += tl.dot(turn, keys, input_precision=precision)
        own_k += tl.dot(tl.trans(turn), x, input_precision=precision)
        own_v += tl.dot(tl.trans(p.to(x.dtype)), pull, input_precision=precision)
        tl.store(dq + place, own_q.to(x.dtype), mask=here & real)
    place = ((row * tokens + i[:, None]) * kvs + kv) * width + d[None, :]
    tl.store(dk + place, own_k.to(keys.dtype), mask=here & real)
    tl.store(dv + place, own_v.to(keys.dtype), mask=here & real)


class Attend(torch.autograd.Function):
    """[rows, tokens, heads, width] of queries q, keys k and values v [rows, heads, tokens, width].

    `ahead` [texts, heads, before, width]: keys and values that come first; rows / texts neighbouring rows share one.
    `mask` [rows, 1, tokens, before + tokens] is added to the scores.
    """

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, ahead_k: Tensor, ahead_v: Tensor, mask: Tensor, scale: float
    ) -> Tensor:
        rows, heads, tokens, width = q.shape
        out = q.new_empty(rows, tokens, heads, width)
        logsum = torch.empty(rows, heads, tokens, dtype=torch.float32, device=q.device)
        numbers, choices = _shape(q, k, v, ahead_k, mask)
        _attend[(rows * heads,)](q, k, v, ahead_k, ahead_v, mask, out, logsum, scale, *numbers, **choices)
        ctx.save_for_backward(q, k, v, ahead_k, ahead_v, mask, out, logsum)
        ctx.scale = scale
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, ahead_k, ahead_v, mask, out, logsum = ctx.saved_tensors
        rows, _, tokens, width = q.shape
        dq = torch.empty_like(out)
        dk, dv = (q.new_empty(rows, tokens, k.shape[1], width) for _ in "kv")
        slope, (numbers, choices) = grads[0].contiguous(), _shape(q, k, v, ahead_k, mask)
        _attend_back[(rows * k.shape[1],)](
            q, k, v, ahead_k, ahead_v, mask, out, logsum, slope, dq, dk, dv, ctx.scale, *numbers, **choices
        )
        return dq.transpose(1, 2), dk.transpose(1, 2), dv.transpose(1, 2), None, None, None, None


def fits(q: Tensor, ahead: Tensor) -> bool:
    """Whether the kernel holds such queries; otherwise the library's attention does it."""
    return _held(q.shape[2]) * _held(q.shape[3]) * q.element_size() <= LARGEST and q.shape[0] % ahead.shape[0] == 0


def _held(size: int) -> int:
    return max(16, int(triton.next_power_of_2(size)))


def _shape(q: Tensor, k: Tensor, v: Tensor, ahead: Tensor, mask: Tensor) -> tuple[tuple[int, ...], dict[str, Any]]:
    """Strides and sizes, and how much a program holds."""
    rows, heads, tokens, width = q.shape
    held = _held(tokens)
    numbers = (
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *ahead.stride()[:3], mask.stride(0), mask.stride(2),
        heads, heads // k.shape[1], rows // ahead.shape[0], tokens, ahead.shape[2], width,
    )  # fmt: skip
    choices = {
        "rows": held,
        "cols": min(TILE, _held(max(tokens, min(ahead.shape[2], TILE)))),
        "wide": _held(width),
        "exact": q.dtype == torch.float32,
        "num_warps": 4 if held <= 64 else 8,
    }
    return numbers, choices
