"""DELOREAN (Qin et al. 2020): a right text pulls on the logits, then the LM writes on with a mixture of both.

Backward:  y <- y - size ||y|| grad / ||grad||, the gradient of -log p(right | y), or of -log p_y(the old ending)
Forward:   y_t <- mix LM(left, y_<t) + (1 - mix) y_t
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cold.constraints import Future
from cold.errors import ColdError
from cold.kernels import chosen
from cold.lm.context import Context
from cold.lm.model import LanguageModel
from cold.sampling.graph import WARM
from cold.sampling.langevin import State, gradient
from cold.sampling.noise import Noise
from cold.soft import pad
from cold.text import sentences
from cold.text.initialize import unroll
from cold.text.problems import Problems

log = logging.getLogger("cold")
Pull = Callable[[Tensor], Tensor]  # logits [examples, length, vocab] -> the gradient of what is to be lowered


@dataclass(frozen=True)
class Settings:
    """What the published scripts take for a task."""

    passes: int
    iterations: int  # of the backward pass
    size: float
    mix: float
    first: bool = True  # whether the first pass pulls already


ABDUCTIVE = Settings(20, 20, 3e-4, 0.88)
COUNTERFACTUAL = Settings(10, 10, 4e-4, 0.92, first=False)


class Start(NamedTuple):
    """The first logits, 0 where a shorter ending has no token; where it has one; and what pulls, how."""

    y: Tensor  # [examples, length, vocab]
    there: Tensor  # [examples, length]
    pull: Pull
    how: Settings


@dataclass(frozen=True)
class Delorean:
    """Each forward pass leaves a candidate; an example's samples are candidates spread over its passes.

    The ranking with BERT's next-sentence score is not ours to have: candidates are selected by the task's own rule.
    """

    abductive: Settings = ABDUCTIVE
    counterfactual: Settings = COUNTERFACTUAL
    length: int = 15  # tokens that are pulled at; an ending has its own length
    max_length: int = 30
    start: float = 0.01  # temperature of what the LM reads of its own logits at first
    feed: float = 0.1  # and of the mixed ones

    def __call__(self, problems: Problems, reverse: LanguageModel | None, seeds: Sequence[int]) -> list[str]:
        if all(example.right for example in problems.examples):
            start = self._between(problems)
        elif all(example.ending for example in problems.examples):
            start = self._rewrite(problems)
        else:
            raise ColdError(
                "delorean needs a right text or an old ending to look back from, and an example has neither: "
                "use it for abductive or counterfactual"
            )
        candidates = self._passes(problems, start, len(seeds) // problems.story.examples)
        return [text for example in zip(*candidates, strict=True) for text in example]

    def _passes(self, problems: Problems, start: Start, samples: int) -> list[list[str]]:
        """The texts of `samples` passes spread over all, the last among them; one per example each."""
        y, how, written = start.y, start.how, list[list[str]]()
        for number in range(max(how.passes, samples)):
            pulled = backward(y, start.pull, how) if number or how.first else y
            y, texts = self._forward(problems, pulled, start.there, how.mix)
            written.append(texts)
        return [written[(n + 1) * len(written) // samples - 1] for n in range(samples)]

    def _between(self, problems: Problems) -> Start:
        """Start from what the LM writes behind the left text; the right text is read behind y alone."""
        lm = problems.lm
        y = unroll(lm, problems.story.prefix, self.length, lambda _, x: _soft(lm, x / self.start))
        behind = Context(lm, right=[example.right for example in problems.examples])
        energy = (1.0 * Future(behind)).bind(len(y), self.length)
        random = Noise([0] * len(y), 0, y.device)

        def pull(y: Tensor) -> Tensor:
            return gradient(energy, State(y, 0, energy.start(y)), random)[1]

        return Start(y, torch.ones_like(y[..., 0], dtype=torch.bool), Recorded(pull), self.abductive)

    def _rewrite(self, problems: Problems) -> Start:
        """Start from what the LM says along the old ending, whose tokens pull at once, without an LM."""
        lm, ids = problems.lm, problems.story.y_ids([example.ending for example in problems.examples])
        old, there = pad(ids, lm.device)
        y = unroll(lm, problems.story.prefix, old.shape[1], lambda t, _: lm.embed(old[:, t : t + 1]))

        def pull(y: Tensor) -> Tensor:
            y = y.detach().requires_grad_(True)
            with torch.enable_grad():
                (slope,) = torch.autograd.grad(-(chosen(y, old) * there).sum(), y)
            return slope

        return Start(y * there[..., None], there, pull, self.counterfactual)

    @torch.no_grad()
    def _forward(self, problems: Problems, pulled: Tensor, there: Tensor, mix: float) -> tuple[Tensor, list[str]]:
        """The mixed logits, and the first sentence of their likeliest tokens."""
        lm, length, mixed = problems.lm, pulled.shape[1], list[Tensor]()

        def read(t: int, said: Tensor) -> Tensor:
            if t < length:
                said = torch.where(there[:, t, None], mix * said + (1 - mix) * pulled[:, t], said)
            mixed.append(said)
            return _soft(lm, said / self.feed)

        unroll(lm, problems.story.prefix, max(self.max_length, length), read)
        ids = torch.stack([step.argmax(-1) for step in mixed], 1).tolist()
        sizes = [max(self.max_length, size) for size in there.sum(1).tolist()]
        texts = [sentences.first(sentences.clean(lm.decode(row[:n]))) for row, n in zip(ids, sizes, strict=True)]
        return torch.stack(mixed[:length], 1) * there[..., None], texts


class Recorded:
    """A pull as one launch: on a GPU it is recorded at its first use and replayed, elsewhere it runs as it is.

    Its answer is written over by the next one.
    """

    def __init__(self, pull: Pull) -> None:
        self.pull = pull
        self.graph: Any = None
        self.plain = False
        self.y = self.slope = torch.empty(0)

    def __call__(self, y: Tensor) -> Tensor:
        if self.graph is None and not self.plain:
            self._record(y)
        if self.graph is None:
            return self.pull(y)
        self.y.copy_(y)
        self.graph.replay()
        return self.slope

    def _record(self, y: Tensor) -> None:
        self.plain = not y.is_cuda
        if self.plain:
            return
        self.y, stream, graph = y.detach().clone(), torch.cuda.Stream(), torch.cuda.CUDAGraph()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(stream):
                for _ in range(WARM):
                    self.pull(self.y)
            torch.cuda.current_stream().wait_stream(stream)
            with torch.cuda.graph(graph):
                self.slope = self.pull(self.y)
            self.graph = graph
        except RuntimeError as error:
            log.warning("the pull cannot be recorded as a graph (%s): it runs as it is, more slowly", error)
            self.plain = True
            torch.cuda.synchronize()


def backward(y: Tensor, pull: Pull, how: Settings) -> Tensor:
    """Steps of one length: the gradient's direction, scaled to a small part of y itself."""
    for _ in range(how.iterations):
        slope = pull(y)
        y = y - how.size * slope / _norm(slope).clamp(min=1e-15) * _norm(y)
    return y


def _norm(values: Tensor) -> Tensor:
    return values.square().sum((1, 2), keepdim=True).sqrt()


def _soft(lm: LanguageModel, logits: Tensor) -> Tensor:
    return lm.embed_soft(logits.softmax(-1)[:, None])
