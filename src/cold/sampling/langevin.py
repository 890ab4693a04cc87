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
from cold.sampling.update import Scales, adam_, adam_drift, langevin_


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
    """What one step saw: for people to look at, never read by a sampler."""

    evaluation: Any  # at the state before the step
    gradient: Tensor


class Sampler(Protocol):
    """`scales(n)` says what changes between steps, the noise's scale first, so that each step is the same work.

    `drift` is what the gradient, not the noise, has moved y by in the step that led to `state`.
    """

    def init(self, y: Tensor, energy: EnergyFunction) -> State: ...

    def scales(self, step: int) -> Sequence[float]: ...

    def step(self, state: State, energy: EnergyFunction, random: Noise, scales: Scales) -> tuple[State, Move]: ...

    def drift(self, state: State, gradient: Tensor, scales: Scales) -> Tensor: ...


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
        evaluation, grad = gradient(energy, state, random)
        langevin_(state.y, grad, random, scales, self.step_size)
        return State(state.y, state.step + 1, evaluation.memory), Move(evaluation, grad)

    def drift(self, state: State, gradient: Tensor, scales: Scales) -> Tensor:
        return -self.step_size * gradient


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
        evaluation, grad = gradient(energy, state, random)
        adam_(state.y, grad, state.moments, random, scales, (self.beta1, self.beta2), self.eps)
        return State(state.y, state.step + 1, evaluation.memory, state.moments), Move(evaluation, grad)

    def drift(self, state: State, gradient: Tensor, scales: Scales) -> Tensor:
        return adam_drift(state.moments, scales, self.eps)
