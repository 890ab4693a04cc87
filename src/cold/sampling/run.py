"""The loop of Algorithm 1: it yields after every step, keeps no history and stops when an energy breaks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from cold.errors import ColdError
from cold.sampling.diagnostics import Info, look_closely, observe, term_gradients
from cold.sampling.graph import Track
from cold.sampling.langevin import EnergyFunction, Sampler, State
from cold.sampling.noise import Rows
from cold.sampling.update import standard

CHECK = 10  # steps of a track between two looks at its numbers: each look waits for the device


def run(
    sampler: Sampler, y: Tensor, energy: EnergyFunction, seeds: Sequence[int], steps: int, watch: int = 0
) -> Iterator[tuple[State, Info]]:
    """`steps` Langevin steps from y [rows, length, vocab], one seed per row.

    Every `watch` steps (0: never) the step is looked at more closely: entropy, gradient against noise, and the gradient
    of each term alone, which costs one more backward pass per term. A step writes over the state of the one before.
    On a GPU all steps but the first and the watched ones are replays of one recorded step.
    """
    if steps < 1:
        raise ColdError(f"{steps} steps were asked for: take at least 1")
    if len(seeds) != y.shape[0]:
        raise ColdError(f"{len(seeds)} seeds were given for {y.shape[0]} rows: give one per row")
    rows = Rows(seeds, y.device)
    track = Track(sampler, energy, rows, steps) if y.device.type == "cuda" else None
    state = sampler.init(y, energy)
    for step in range(steps):
        watched = bool(watch) and step % watch == 0
        if track and step and not watched:
            state, info = track.step(state)
        else:
            random, scales = rows.at(step), sampler.scales(step)
            norms = term_gradients(energy, state, random) if watched else None
            state, move = sampler.step(state, energy, random, scales)
            info = observe(step, move)
            if norms is not None:
                drift, noise = sampler.drift(state, move.gradient, scales), standard(y, random).mul_(scales[0])
                info = look_closely(info, state, norms, drift, noise)
        if track is None or step % CHECK == 0 or step == steps - 1:
            require_finite(energy.names, info.scores, step)
            require_finite_gradient(energy.names, info.gradient, step)
        yield state, info


def require_finite(names: list[str], scores: Tensor, step: int) -> None:
    """A broken term would silently turn every later state into NaN: stop and name it."""
    broken = ~torch.isfinite(scores)
    if broken.any():
        term, row = (int(i) for i in broken.nonzero()[0])
        raise ColdError(
            f"term {names[term]!r} is {float(scores[term, row])} in row {row} at step {step}: "
            "its function divides by zero or takes the log of 0 there, or the step size is too large"
        )


def require_finite_gradient(names: list[str], norms: Tensor, step: int) -> None:
    """A finite score may still have an infinite slope, as a root has at 0."""
    broken = ~torch.isfinite(norms)
    if broken.any():
        row = int(broken.nonzero()[0])
        raise ColdError(
            f"the gradient of the energy is {float(norms[row])} in row {row} at step {step}: "
            f"a term of it ({', '.join(names)}) takes the root or log of 0 there, or the step size is too large"
        )
