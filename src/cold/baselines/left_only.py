"""Left-only: the LM continues the left text to the end of a sentence and knows of no constraint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cold.lm.model import LanguageModel
from cold.lm.prefix import Prefix
from cold.sampling.noise import Noise
from cold.text import sentences
from cold.text.problems import Problems

NEVER = -float("inf")


@dataclass(frozen=True)
class LeftOnly:
    """One sentence per row, drawn from the LM with the row's own noise; or, `greedy`, the likeliest token each time.

    `top_k` and `top_p` cut what it draws from: the k likeliest tokens; the fewest that together have so much.
    """

    greedy: bool = False
    top_k: int = 0
    top_p: float = 1.0
    max_length: int = 40

    def __call__(self, problems: Problems, reverse: LanguageModel | None, seeds: Sequence[int]) -> list[str]:
        return self.behind(problems.story.prefix, seeds)

    @torch.no_grad()
    def behind(self, lefts: Prefix, seeds: Sequence[int]) -> list[str]:
        """A sentence per seed behind texts already read, each of which has as many samples."""
        lm, samples = lefts.lm, len(seeds) // lefts.rows
        prefix = lefts.select([row // samples for row in range(len(seeds))])
        texts: list[list[int]] = [[] for _ in seeds]
        active = list(range(len(seeds)))
        for step in range(self.max_length):
            assert prefix.logits is not None
            logits = self._cut(prefix.logits.masked_fill(lm.banned, NEVER))
            if not self.greedy:
                noise = Noise([seeds[row] for row in active], step, lm.device)
                logits = logits + noise.gumbel("left-only", (1, lm.vocab))[:, 0]
            chosen = logits.argmax(-1)
            for row, token in zip(active, chosen.tolist(), strict=True):
                texts[row].append(token)
            going = [i for i, row in enumerate(active) if not sentences.is_complete(lm.decode(texts[row]))]
            active = [active[i] for i in going]
            if not active or prefix.mask.shape[1] >= lm.window:
                break
            prefix = prefix.select(going).append_ids(chosen[going])
        return [sentences.clean(lm.decode(ids)) for ids in texts]

    def _cut(self, logits: Tensor) -> Tensor:
        if self.top_k:
            least = logits.topk(min(self.top_k, logits.shape[-1]), dim=-1).values[:, -1:]
            logits = logits.masked_fill(logits < least, NEVER)
        if self.top_p < 1:
            ordered = logits.sort(dim=-1, descending=True)
            probs = ordered.values.softmax(-1)
            beyond = probs.cumsum(-1) - probs >= self.top_p  # what came before is enough
            logits = logits.masked_fill(beyond.scatter(-1, ordered.indices, beyond), NEVER)
        return logits
