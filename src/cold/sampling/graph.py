"""A step on fixed buffers: the same work at the same addresses every time, which a GPU records once and replays."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cold.sampling.diagnostics import Info, observe
from cold.sampling.langevin import EnergyFunction, Sampler, State
from cold.sampling.noise import Rows

log = logging.getLogger("cold")
WARM = 2  # steps outside of a recording: libraries choose their kernels and allocate


class Track:
    """Steps of one chain. The step's number and its scales lie on the device, and so does all that it remembers.

    On a GPU the step is recorded as a CUDA graph at its first use; what cannot be recorded is run as it is, with one
    line in the log. On a CPU it is always run as it is, which is how tests compare it with the plain loop.
    """

    def __init__(self, sampler: Sampler, energy: EnergyFunction, rows: Rows, steps: int) -> None:
        self.sampler, self.energy, self.rows = sampler, energy, rows
        scales = [sampler.scales(step) for step in range(steps)]
        self.scales = torch.tensor(scales, dtype=torch.float32, device=rows.device)  # [steps, n]
        self.at = torch.zeros((), dtype=torch.int64, device=rows.device)
        self.state: State | None = None
        self.seen: Info | None = None
        self.graph: Any = None
        self.plain = rows.device.type != "cuda"

    def step(self, state: State) -> tuple[State, Info]:
        """One step from `state`, whose y and moments are written over as by any step."""
        here = self._enter(state)
        if self.graph is None and not self.plain:
            self._record(here)
        if self.graph is None:
            self._advance(here)
        else:
            self.graph.replay()
        seen = self.seen
        assert seen is not None
        self.state = here._replace(step=state.step + 1)
        return self.state, Info(state.step, seen.energy.clone(), seen.scores.clone(), seen.gradient.clone())

    def _enter(self, state: State) -> State:
        """The state in the track's own buffers."""
        if self.state is None:  # y and moments stay where the sampler put them; what is remembered moves in
            here = state._replace(memory=_map(state.memory, torch.clone))
        else:
            here = self.state._replace(step=state.step)
            if state is not self.state:  # a watched step came between
                _copy(here.memory, state.memory)
        self.at.fill_(state.step)
        return here

    def _advance(self, here: State) -> None:
        """The step; it reads and writes fixed buffers only."""
        scales = self.scales.index_select(0, self.at.view(1))[0]
        new, move = self.sampler.step(here, self.energy, self.rows.at(self.at), scales)
        _copy(here.memory, new.memory)
        self.seen = observe(here.step, move)

    def _record(self, here: State) -> None:
        buffers = (here.y, here.moments, here.memory)
        kept = _map(buffers, torch.clone)
        try:
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(WARM):
                    self._advance(here)
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self._advance(here)
            self.graph = graph
        except Exception as error:  # anything may stand in a user's constraint
            log.warning("the step cannot be recorded as a graph (%s): it runs as it is, more slowly", error)
            self.plain = True
            torch.cuda.synchronize()
        _copy(buffers, kept)


def _map(value: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """The same nest of tuples with every tensor replaced."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, tuple):
        made = [_map(part, function) for part in value]
        return type(value)(*made) if hasattr(value, "_fields") else tuple(made)
    return value


def _copy(into: Any, source: Any) -> None:
    if isinstance(into, Tensor):
        into.copy_(source)
    elif isinstance(into, tuple):
        for place, part in zip(into, source, strict=True):
            _copy(place, part)
