"""What a person wants to see of a chain: terms, gradient norms, entropy, and how gradient and noise compare."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cold.sampling.langevin import EnergyFunction, Move, State
from cold.sampling.noise import Noise


class Info(NamedTuple):
    """One step, seen from outside. All tensors are per row; the last three only where the run was asked to watch."""

    step: int
    energy: Tensor  # before the step [rows]
    scores: Tensor  # each term's f, unweighted [terms, rows]
    gradient: Tensor  # |grad E| [rows]
    term_gradients: Tensor | None = None  # |grad f_i|, unweighted [terms, rows]
    entropy: Tensor | None = None  # mean entropy of softmax(y~) after the step, nats [rows]
    drift_to_noise: Tensor | None = None  # |gradient move| / |noise move|; infinite without noise [rows]


def observe(step: int, move: Move) -> Info:
    return Info(step, move.evaluation.energy, move.evaluation.scores, _norm(move.gradient))


def look_closely(seen: Info, state: State, norms: Tensor, drift: Tensor, noise: Tensor) -> Info:
    """`norms`: of each term's own gradient; `drift` and `noise`: what the step that led to `state` moved y by."""
    log_probs = state.y.log_softmax(-1)
    entropy = -(log_probs.exp() * log_probs).sum(-1).mean(-1)
    return seen._replace(term_gradients=norms, entropy=entropy, drift_to_noise=_norm(drift) / _norm(noise))


def term_gradients(energy: EnergyFunction, state: State, random: Noise) -> Tensor:
    """The gradient norm of each term alone [terms, rows]."""
    y = state.y.detach().requires_grad_(True)
    with torch.enable_grad():
        evaluation = energy(y, state.memory, random)
        norms = []
        for part in evaluation.parts or evaluation.scores:
            if not part.requires_grad:  # a constant term
                norms.append(torch.zeros_like(part))
                continue
            (grad,) = torch.autograd.grad(part.sum(), y, retain_graph=True, allow_unused=True)
            norms.append(torch.zeros_like(part) if grad is None else _norm(grad))
    return torch.stack(norms).detach()


def _norm(values: Tensor) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(values.flatten(1), dim=1)
    return norm
