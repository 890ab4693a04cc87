"""The start y~(0): what an LM would write after the left text, as logits (section 3.4), or something else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cold.errors import ColdError
from cold.lm.context import Context
from cold.lm.model import LanguageModel
from cold.lm.prefix import Prefix
from cold.sampling.noise import Noise
from cold.soft import expand
from cold.text.problems import Problems

Initialize = Callable[[Problems, Sequence[int]], Tensor]  # problems and row seeds -> logits [rows, length, vocab]


@dataclass(frozen=True)
class Greedy:
    """As written: the logits along the LM's greedy continuation of the left text."""

    def __call__(self, problems: Problems, seeds: Sequence[int]) -> Tensor:
        return expand(self.logits(problems.story, problems.length), len(seeds))

    def logits(self, story: Context, length: int) -> Tensor:
        lm = story.lm
        return unroll(lm, story.prefix, length, lambda _, x: lm.embed(x.argmax(-1, keepdim=True)))


@dataclass(frozen=True)
class SoftUnroll:
    """As released: each next input is the expected embedding of the prediction before it; no draw, no argmax."""

    temperature: float = 1.0  # of the stored logits

    def __call__(self, problems: Problems, seeds: Sequence[int]) -> Tensor:
        return expand(self.logits(problems.story, problems.length), len(seeds))

    def logits(self, story: Context, length: int) -> Tensor:
        lm = story.lm
        return unroll(lm, story.prefix, length, lambda _, x: lm.embed_soft(x.softmax(-1)[:, None])) / self.temperature


@dataclass(frozen=True)
class Sampled:
    """Each row starts from its own sampled continuation, the drawn tokens raised by `lift` above the LM's best."""

    temperature: float = 1.0
    lift: float = 2.0

    def __call__(self, problems: Problems, seeds: Sequence[int]) -> Tensor:
        lm = problems.lm
        rows = torch.arange(problems.story.examples).repeat_interleave(len(seeds) // problems.story.examples)
        gumbel = Noise(seeds, 0, lm.device).gumbel("initialize", (problems.length, lm.vocab))
        drawn: list[Tensor] = []

        def draw(t: int, logits: Tensor) -> Tensor:
            noisy = (logits / self.temperature + gumbel[:, t]).masked_fill(lm.banned, -float("inf"))
            drawn.append(noisy.argmax(-1, keepdim=True))
            return lm.embed(drawn[-1])

        prefix = problems.story.prefix.select(rows)
        logits = unroll(lm, prefix, problems.length, draw)
        best = logits.amax(-1, keepdim=True)
        return logits.scatter(-1, torch.stack(drawn, 1), best + self.lift)


@dataclass(frozen=True)
class RandomLogits:
    """Normal noise: nothing is known."""

    scale: float = 1.0

    def __call__(self, problems: Problems, seeds: Sequence[int]) -> Tensor:
        lm = problems.lm
        y = self.scale * Noise(seeds, 0, lm.device).normal("initialize", (problems.length, lm.vocab))
        return torch.where(lm.banned, y.amin(-1, keepdim=True), y)


@dataclass(frozen=True)
class FromText:
    """A given text per example, its tokens `lift` above all others; positions behind it start flat (as released)."""

    texts: tuple[str, ...]
    lift: float = 10.0

    def __call__(self, problems: Problems, seeds: Sequence[int]) -> Tensor:
        lm, story = problems.lm, problems.story
        if len(self.texts) != story.examples:
            raise ColdError(f"{len(self.texts)} texts to start from for {story.examples} examples: give one for each")
        y = torch.zeros(len(self.texts), problems.length, lm.vocab, device=lm.device)
        for row, ids in enumerate(story.y_ids(self.texts)):
            for t, token in enumerate(ids[: problems.length]):
                y[row, t, token] = self.lift
        return expand(y, len(seeds))


@torch.no_grad()
def unroll(lm: LanguageModel, prefix: Prefix, length: int, feed: Callable[[int, Tensor], Tensor]) -> Tensor:
    """The LM's logits over `length` steps, `feed` turning each prediction into the next input embedding."""
    steps: list[Tensor] = []
    for t in range(length):
        assert prefix.logits is not None
        logits = torch.where(lm.banned, prefix.logits.amin(-1, keepdim=True), prefix.logits)  # its row's least
        steps.append(logits)
        following = feed(t, logits)
        if t < length - 1:
            prefix = prefix.append(following)
    return torch.stack(steps, 1)
