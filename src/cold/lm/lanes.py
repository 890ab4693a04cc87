"""Work that is independent runs side by side on a GPU: the kernels of one small model do not fill it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


class Lanes:
    """Each piece of work on a stream of its own, the last on the caller's; elsewhere one after the other.

    The backward pass of each piece runs on the same stream again. What a piece reads must outlive the call.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.streams: list[Any] = []

    def __call__(self, works: Sequence[Callable[[], Any]]) -> list[Any]:
        if len(works) < 2 or self.device.type != "cuda":
            return [work() for work in works]
        while len(self.streams) < len(works) - 1:
            self.streams.append(torch.cuda.Stream())  # type: ignore[no-untyped-call]
        main = torch.cuda.current_stream()
        lanes = [*self.streams[: len(works) - 1], main]
        for lane in lanes[:-1]:
            lane.wait_stream(main)
        found = []
        for work, lane in zip(works, lanes, strict=True):
            with torch.cuda.stream(lane):
                found.append(work())
        for lane in lanes[:-1]:
            main.wait_stream(lane)
        for result in found:
            for part in result:
                if isinstance(part, Tensor) and part.is_cuda:
                    part.record_stream(main)
        return found
