"""Pointwise parts of a transformer's layer: rotary positions, and the gate of a feed-forward; plain in lm/layers.py."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

TOKENS = 32  # that one program turns
BLOCK = 1024  # numbers gated together


@triton.jit
def _turn(
    q, k, v, out, cos, sin, q0, q1, q2, k0, k1, k2, v0, v1, v2, c0, c1, heads, key_heads, tokens, half,
    back: tl.constexpr, rows: tl.constexpr, wide: tl.constexpr,
):  # fmt: skip
    """One program per row, head and few tokens; heads of queries come first, then those of keys and values."""
    every = heads + 2 * key_heads
    row, head = (tl.program_id(0) // every).to(tl.int64), tl.program_id(0) % every
    i = tl.program_id(1) * rows + tl.arange(0, rows)[:, None]
    d = tl.arange(0, wide)[None, :]
    here = (i < tokens) & (d < half)
    if head < heads:
        place = q + row * q0 + head * q1 + i * q2 + d
    elif head < heads + key_heads:
        place = k + row * k0 + (head - heads) * k1 + i * k2 + d
    else:
        place = v + row * v0 + (head - heads - key_heads) * v1 + i * v2 + d
    first = tl.load(place, mask=here, other=0.0).to(tl.float32)
    second = tl.load(place + half, mask=here, other=0.0).to(tl.float32)
    low, high = first, second
    if head < heads + key_heads:
        angle = row * c0 + i * c1 + d
        cos1 = tl.load(cos + angle, mask=here, other=0.0).to(tl.float32)
        cos2 = tl.load(cos + angle + half, mask=here, other=0.0).to(tl.float32)
        sin1 = tl.load(sin + angle, mask=here, other=0.0).to(tl.float32)
        sin2 = tl.load(sin + angle + half, mask=here, other=0.0).to(tl.float32)
        if back:
            low, high = first * cos1 + second * sin2, second * cos2 - first * sin1
        else:
            low, high = first * cos1 - second * sin1, second * cos2 + first * sin2
    to = out + ((row * tokens + i) * every + head) * (2 * half) + d
    tl.store(to, low.to(out.dtype.element_ty), mask=here)
    tl.store(to + half, high.to(out.dtype.element_ty), mask=here)


@triton.jit
def _gate(both, out, size, width, block: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < size
    place = at // width * (2 * width) + at % width
    gate = tl.load(both + place, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(both + place + width, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + at, (gate * tl.sigmoid(gate) * up).to(out.dtype.element_ty), mask=inside)


@triton.jit
def _gate_back(both, slope, out, size, width, block: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < size
    place = at // width * (2 * width) + at % width
    gate = tl.load(both + place, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(both + place + width, mask=inside, other=0.0).to(tl.float32)
    pull = tl.load(slope + at, mask=inside, other=0.0).to(tl.float32)
    open_ = tl.sigmoid(gate)
    to_gate = pull * up * open_ * (1.0 + gate * (1.0 - open_))
    tl.store(out + place, to_gate.to(out.dtype.element_ty), mask=inside)
    tl.store(out + place + width, (pull * gate * open_).to(out.dtype.element_ty), mask=inside)


def turn(parts: tuple[Tensor, ...], cos: Tensor, sin: Tensor, back: bool) -> Tensor:
    """Queries, keys and values [rows, heads, tokens, width] side by side; the first two turned."""
    (rows, heads, tokens, width), keys = parts[0].shape, parts[1].shape[1]
    parts = tuple(part if part.stride(3) == 1 else part.contiguous() for part in parts)
    cos, sin = cos.contiguous().expand(rows, -1, -1), sin.contiguous().expand(rows, -1, -1)
    out = parts[0].new_empty(rows, tokens, heads + 2 * keys, width)
    strides = [size for part in parts for size in part.stride()[:3]]
    _turn[(rows * (heads + 2 * keys), triton.cdiv(tokens, TOKENS))](
        *parts, out, cos, sin, *strides, *cos.stride()[:2], heads, keys, tokens, width // 2, back=back,
        rows=min(TOKENS, triton.next_power_of_2(tokens)), wide=triton.next_power_of_2(width // 2), num_warps=1,
    )  # fmt: skip
    return out


def gate(both: Tensor) -> Tensor:
    """silu(the first half) times the second half of the last axis."""
    width = both.shape[-1] // 2
    out = both.new_empty(*both.shape[:-1], width)
    _gate[(triton.cdiv(out.numel(), BLOCK),)](both, out, out.numel(), width, block=BLOCK)
    return out


def gate_back(both: Tensor, slope: Tensor) -> Tensor:
    out = torch.empty_like(both)
    _gate_back[(triton.cdiv(slope.numel(), BLOCK),)](
        both, slope, out, slope.numel(), both.shape[-1] // 2, block=BLOCK
    )  # fmt: skip
    return out
