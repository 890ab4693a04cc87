"""Langevin dynamics: y~ <- y~ - step_size grad E(y~) + N(0, sigma_n^2) (Eq. 2), and the published variant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from cold.errors import ColdError
from cold.sampling.noise import Noise
from cold.sampling.schedules import Schedule


class EnergyFunction(Protocol):
    """What a sampler knows of an energy."""

    names: list[str]

    def start(self, y: Tensor) -> Any: ...

    def __call__(self, y: Tensor, memory: Any, random: Noise) -> Any: ...


class State(NamedTuple):
    """What the next step needs, and nothing else. A step writes over y and the moments of the state it is given."""

    y: Tensor
    step: int
    memory: Any
    moments: tuple[Tensor, ...] = ()


class Move(NamedTuple):
    """What one step did: for people to look at, never read by a sampler. y moved by drift + noise."""

    evaluation: Any  # at the state before the step
    gradient: Tensor
    drift: Tensor
    noise: Tensor


Scales = Sequence[float] | Tensor  # numbers that change from step to step


class Sampler(Protocol):
    """`scales(n)` says what changes between steps, so that the step itself is the same work every time."""

    def init(self, y: Tensor, energy: EnergyFunction) -> State: ...

    def scales(self, step: int) -> Sequence[float]: ...

    def step(self, state: State, energy: EnergyFunction, random: Noise, scales: Scales) -> tuple[State, Move]: ...


def gradient(energy: EnergyFunction, state: State, random: Noise) -> tuple[Any, Tensor]:
    """E and dE/dy~ at a state; rows never interact, so the sum's gradient is each row's own."""
    y = state.y.detach().requires_grad_(True)
    with torch.enable_grad():
        evaluation = energy(y, state.memory, random)
        if not evaluation.energy.requires_grad:
            raise ColdError(f"no term of the energy ({', '.join(energy.names)}) depends on the soft sequence")
        (grad,) = torch.autograd.grad(evaluation.energy.sum(), y)
    bare = evaluation._replace(energy=evaluation.energy.detach(), scores=evaluation.scores.detach(), parts=())
    return bare, grad


@dataclass(frozen=True)
class Langevin:
    """y~ <- y~ - step_size grad E(y~) + sigma_n N(0, 1)"""

    step_size: float
    noise: Schedule

    def init(self, y: Tensor, energy: EnergyFunction) -> State:
        return State(y.detach().clone(), 0, energy.start(y))

    def scales(self, step: int) -> Sequence[float]:
        return (self.noise(step),)

    def step(self, state: State, energy: EnergyFunction, random: Noise, scales: Scales) -> tuple[State, Move]:
        (sigma,) = scales
        evaluation, grad = gradient(energy, state, random)
        drift = -self.step_size * grad
        noise = _standard(state.y, random).mul_(sigma)
        new = State(state.y.add_(drift).add_(noise), state.step + 1, evaluation.memory)
        return new, Move(evaluation, grad, drift, noise)


@dataclass(frozen=True)
class AdamLangevin:
    """As released: the drift is Adam's step, the noise is added outside of Adam, which never sees it.

    The published code averages its loss over the batch; since Adam is blind to scale but for eps, that equals a
    gradient per row with eps times the batch size, which is how a row here does not depend on its batch.
    """

    step_size: float
    noise: Schedule
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8

    def init(self, y: Tensor, energy: EnergyFunction) -> State:
        return State(y.detach().clone(), 0, energy.start(y), (torch.zeros_like(y), torch.zeros_like(y)))

    def scales(self, step: int) -> Sequence[float]:
        n = step + 1
        return self.noise(step), -self.step_size / (1 - self.beta1**n), (1 - self.beta2**n) ** 0.5

    def step(self, state: State, energy: EnergyFunction, random: Noise, scales: Scales) -> tuple[State, Move]:
        sigma, size, bias = scales
        evaluation, grad = gradient(energy, state, random)
        first, second = state.moments
        first.lerp_(grad, 1 - self.beta1)
        second.mul_(self.beta2).addcmul_(grad, grad, value=1 - self.beta2)
        scale = second.sqrt().div_(bias).add_(self.eps)
        drift = torch.div(first, scale, out=scale).mul_(size)
        noise = _standard(state.y, random).mul_(sigma)
        new = State(state.y.add_(drift).add_(noise), state.step + 1, evaluation.memory, (first, second))
        return new, Move(evaluation, grad, drift, noise)


def _standard(y: Tensor, random: Noise) -> Tensor:
    return random.normal("langevin", (y.shape[1], y.shape[2]))
