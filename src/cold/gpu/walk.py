"""The Langevin update with its noise: one kernel where plain torch needs forty passes (sampling/update.py)."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024  # tokens of the vocabulary updated together


@triton.jit
def _mix(x, key):
    """As sampling/noise.py: the finalizer of MurmurHash3 with a key mixed in between."""
    x = x ^ ((x >> 16) & 0xFFFF)
    x = x * -2048144789
    x = x ^ key
    x = x ^ ((x >> 13) & 0x7FFFF)
    x = x * -1028477387
    return x ^ ((x >> 16) & 0xFFFF)


@triton.jit
def _uniform(keys, row, place, pair):
    first, second = tl.load(keys + 2 * row), tl.load(keys + 2 * row + 1)
    head = _mix(first + place, second)
    tail = _mix(second ^ place, head)
    x = _mix(pair * -1640531527 + head, tail)
    return (((x >> 9) & 0x7FFFFF).to(tl.float32) + 0.5) * 1.1920928955078125e-07


@triton.jit
def _normal(radii, angles, row, position, step, token):
    place = position * 668265263 + step * -1640531527
    radius = tl.sqrt(-2.0 * tl.log(_uniform(radii, row, place, token // 2)))
    angle = _uniform(angles, row, place, token // 2) * 6.283185307179586
    return tl.where(token % 2 == 0, tl.cos(angle), tl.sin(angle)) * radius


@triton.jit
def _walk(y, grad, radii, angles, step, scales, size, positions, vocab, block: tl.constexpr):
    at = tl.program_id(0)
    token = tl.program_id(1) * block + tl.arange(0, block)
    inside = token < vocab
    place = at.to(tl.int64) * vocab + token
    noise = _normal(radii, angles, at // positions, at % positions, tl.load(step).to(tl.int32), token)
    drift = -size * tl.load(grad + place, mask=inside)
    tl.store(y + place, tl.load(y + place, mask=inside) + drift + noise * tl.load(scales), mask=inside)


@triton.jit
def _walk_adam(
    y, grad, m, s, radii, angles, step, scales, keep1, keep2, eps, positions, vocab, block: tl.constexpr
):  # fmt: skip
    at = tl.program_id(0)
    token = tl.program_id(1) * block + tl.arange(0, block)
    inside = token < vocab
    place = at.to(tl.int64) * vocab + token
    noise = _normal(radii, angles, at // positions, at % positions, tl.load(step).to(tl.int32), token)
    sigma, size, bias = tl.load(scales), tl.load(scales + 1), tl.load(scales + 2)
    g = tl.load(grad + place, mask=inside)
    first = tl.load(m + place, mask=inside)
    first += (g - first) * keep1
    second = tl.load(s + place, mask=inside) * keep2 + g * g * (1.0 - keep2)
    drift = first / (tl.sqrt(second) / bias + eps) * size
    tl.store(m + place, first, mask=inside)
    tl.store(s + place, second, mask=inside)
    tl.store(y + place, tl.load(y + place, mask=inside) + drift + noise * sigma, mask=inside)


def walk_(y: Tensor, grad: Tensor, keys: tuple[Tensor, Tensor], step: Tensor, scales: Tensor, size: float) -> None:
    rows, positions, vocab = y.shape
    grid = (rows * positions, triton.cdiv(vocab, BLOCK))
    _walk[grid](y, grad, *keys, step, scales, size, positions, vocab, block=BLOCK)


def walk_adam_(
    y: Tensor, grad: Tensor, moments: tuple[Tensor, ...], keys: tuple[Tensor, Tensor], step: Tensor, scales: Tensor,
    betas: tuple[float, float], eps: float,
) -> None:  # fmt: skip
    rows, positions, vocab = y.shape
    grid = (rows * positions, triton.cdiv(vocab, BLOCK))
    beta1, beta2 = betas
    _walk_adam[grid](
        y, grad, *moments, *keys, step, scales, 1 - beta1, beta2, eps, positions, vocab, block=BLOCK
    )  # fmt: skip
