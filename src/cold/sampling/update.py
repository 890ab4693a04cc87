"""How y moves, in place: a few passes of plain torch, or one kernel on a GPU. Both draw the same noise."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cold.kernels import compiled
from cold.sampling.noise import Noise

STREAM = "langevin"
Scales = Sequence[float] | Tensor  # numbers that change from step to step


def langevin_(y: Tensor, grad: Tensor, random: Noise, scales: Scales, size: float) -> None:
    """y - size grad + sigma N(0, 1); scales = (sigma,)"""
    if compiled(y.device):
        from cold.gpu.walk import walk_

        walk_(y, grad.contiguous(), _keys(random), _step(random), _on(scales, y.device), size)
        return
    (sigma,) = scales
    y.add_(-size * grad).add_(standard(y, random).mul_(sigma))


def adam_(
    y: Tensor, grad: Tensor, moments: tuple[Tensor, ...], random: Noise, scales: Scales,
    betas: tuple[float, float], eps: float,
) -> None:  # fmt: skip
    """Adam's step, whose moments are kept in place, and noise outside of it; see `adam_drift` for the scales."""
    if compiled(y.device):
        from cold.gpu.walk import walk_adam_

        place = _on(scales, y.device)
        walk_adam_(y, grad.contiguous(), moments, _keys(random), _step(random), place, betas, eps)
        return
    first, second = moments
    first.lerp_(grad, 1 - betas[0])
    second.mul_(betas[1]).addcmul_(grad, grad, value=1 - betas[1])
    y.add_(adam_drift(moments, scales, eps)).add_(standard(y, random).mul_(scales[0]))


def adam_drift(moments: tuple[Tensor, ...], scales: Scales, eps: float) -> Tensor:
    """first / (sqrt(second) / bias + eps) size; scales = (sigma, size, bias), the last two corrected for the start"""
    _, size, bias = scales
    first, second = moments
    scale = second.sqrt().div_(bias).add_(eps)
    return torch.div(first, scale, out=scale).mul_(size)


def standard(y: Tensor, random: Noise) -> Tensor:
    """The step's noise before it is scaled."""
    return random.normal(STREAM, (y.shape[1], y.shape[2]))


def _keys(random: Noise) -> tuple[Tensor, Tensor]:
    return random.rows.keys(STREAM + "/r"), random.rows.keys(STREAM + "/a")


def _step(random: Noise) -> Tensor:
    return random.step if isinstance(random.step, Tensor) else torch.full((), random.step, device=random.device)


def _on(scales: Scales, device: torch.device) -> Tensor:
    return scales if isinstance(scales, Tensor) else torch.tensor(scales, dtype=torch.float32, device=device)
