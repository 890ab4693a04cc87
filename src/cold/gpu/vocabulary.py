"""Sums over the vocabulary in one pass over the logits: the plain versions, which pass several times, are kernels.py's.

Logits are [rows, length, vocab] in fp32; one program walks along one position.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4096  # tokens looked at together


@triton.jit
def _level(x, out, x0, x1, length, vocab, block: tl.constexpr):
    at = tl.program_id(0)
    x += (at // length).to(tl.int64) * x0 + (at % length) * x1
    best, total = tl.full([], float("-inf"), tl.float32), tl.zeros([], tl.float32)
    for first in range(0, vocab, block):
        token = first + tl.arange(0, block)
        here = tl.load(x + token, mask=token < vocab, other=float("-inf"))
        most = tl.maximum(best, tl.max(here, 0))
        total = total * tl.exp(best - most) + tl.sum(tl.exp(here - most), 0)
        best = most
    tl.store(out + at, best + tl.log(total))


@triton.jit
def _share(x, level, factor, out, x0, x1, length, vocab, block: tl.constexpr):
    at = tl.program_id(0)
    x += (at // length).to(tl.int64) * x0 + (at % length) * x1
    token = tl.program_id(1) * block + tl.arange(0, block)
    inside = token < vocab
    here = tl.exp(tl.load(x + token, mask=inside) - tl.load(level + at)) * tl.load(factor + at)
    tl.store(out + at.to(tl.int64) * vocab + token, here, mask=inside)


@triton.jit
def _agree(expected, y, found, level, e0, e1, y0, y1, length, vocab, block: tl.constexpr):
    """sum_v softmax(expected)_v y_v, and the level of `expected`."""
    at = tl.program_id(0)
    row, place = (at // length).to(tl.int64), at % length
    expected += row * e0 + place * e1
    y += row * y0 + place * y1
    best, total = tl.full([], float("-inf"), tl.float32), tl.zeros([], tl.float32)
    mean = tl.zeros([], tl.float32)
    for first in range(0, vocab, block):
        token = first + tl.arange(0, block)
        inside = token < vocab
        here = tl.load(expected + token, mask=inside, other=float("-inf"))
        there = tl.load(y + token, mask=inside, other=0.0)
        most = tl.maximum(best, tl.max(here, 0))
        p, old = tl.exp(here - most), tl.exp(best - most)
        total = total * old + tl.sum(p, 0)
        mean = mean * old + tl.sum(p * there, 0)
        best = most
    tl.store(found + at, mean / total)
    tl.store(level + at, best + tl.log(total))


@triton.jit
def _agree_back(
    expected, y, found, level, slope, to_expected, to_y, e0, e1, y0, y1, length, vocab,
    wants_expected: tl.constexpr, wants_y: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0)
    row, place = (at // length).to(tl.int64), at % length
    token = tl.program_id(1) * block + tl.arange(0, block)
    inside = token < vocab
    here = tl.load(expected + row * e0 + place * e1 + token, mask=inside)
    turn = tl.exp(here - tl.load(level + at)) * tl.load(slope + at)
    out = at.to(tl.int64) * vocab + token
    if wants_y:
        tl.store(to_y + out, turn, mask=inside)
    if wants_expected:
        there = tl.load(y + row * y0 + place * y1 + token, mask=inside)
        tl.store(to_expected + out, turn * (there - tl.load(found + at)), mask=inside)


def level(x: Tensor) -> Tensor:
    """log sum_v exp x_v [rows, length]."""
    rows, length, vocab = x.shape
    out = x.new_empty(rows, length)
    _level[(rows * length,)](x, out, x.stride(0), x.stride(1), length, vocab, block=BLOCK, num_warps=8)
    return out


def share(x: Tensor, level: Tensor, factor: Tensor) -> Tensor:
    """exp(x - level) factor, both one number per position."""
    rows, length, vocab = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    grid = (rows * length, triton.cdiv(vocab, BLOCK))
    _share[grid](x, level.contiguous(), factor.contiguous(), out, x.stride(0), x.stride(1), length, vocab, block=BLOCK)
    return out


def agree(expected: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """sum_v softmax(expected)_v y_v, and the level of `expected` [rows, length]."""
    rows, length, vocab = y.shape
    found, level = y.new_empty(rows, length), y.new_empty(rows, length)
    steps = (*expected.stride()[:2], *y.stride()[:2])
    _agree[(rows * length,)](expected, y, found, level, *steps, length, vocab, block=BLOCK, num_warps=8)
    return found, level


def agree_back(
    expected: Tensor, y: Tensor, found: Tensor, level: Tensor, slope: Tensor, wants: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    """The slopes towards `expected` and y, each if wanted."""
    rows, length, vocab = y.shape
    outs = [torch.empty(y.shape, dtype=y.dtype, device=y.device) if wanted else None for wanted in wants]
    steps = (*expected.stride()[:2], *y.stride()[:2])
    _agree_back[(rows * length, triton.cdiv(vocab, BLOCK))](
        expected, y, found, level, slope.contiguous(), *(y if out is None else out for out in outs), *steps, length,
        vocab, wants_expected=wants[0], wants_y=wants[1], block=BLOCK,
    )  # fmt: skip
    return outs[0], outs[1]
