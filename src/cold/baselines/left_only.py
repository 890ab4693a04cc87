"""Left-only: the LM continues the left text to the end of a sentence, drawn or by a beam, and knows no constraint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cold.baselines.hypotheses import Hypothesis, Limits, Task
from cold.baselines.phrases import finals, script_of
from cold.baselines.search import Search, read_on
from cold.lm.model import LanguageModel
from cold.lm.prefix import Prefix
from cold.sampling.noise import Noise
from cold.text import sentences
from cold.text.beam import TERMINATORS
from cold.text.clauses import Clauses
from cold.text.problems import Problems

NEVER = -float("inf")
HEAD = 1024  # tokens among which a nucleus is looked for first
SIGNS = (*TERMINATORS, "…", "\ufffd")  # that may end a sentence, the last being part of a character


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
        final = finals(lm, SIGNS).tolist()
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
            ended = [final[texts[row][-1]] and sentences.is_complete(lm.decode(texts[row])) for row in active]
            going = [i for i, over in enumerate(ended) if not over]
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
            probs = logits.softmax(-1)
            head = probs.topk(min(HEAD, logits.shape[-1]), dim=-1)
            kept = self._nucleus(head.values, head.indices, logits.shape[-1])
            short = (head.values.sum(-1) < self.top_p).nonzero()[:, 0]
            if len(short):  # rows that need more: sorting all takes far longer
                ordered = probs[short].sort(dim=-1, descending=True)
                kept[short] = self._nucleus(ordered.values, ordered.indices, logits.shape[-1])
            logits = logits.masked_fill(~kept, NEVER)
        return logits

    def _nucleus(self, probs: Tensor, tokens: Tensor, vocab: int) -> Tensor:
        """Which tokens stay [rows, vocab], of the likeliest, best first."""
        needed = probs.cumsum(-1) - probs < self.top_p  # what came before is not enough
        kept = torch.zeros(len(probs), vocab, dtype=torch.bool, device=probs.device)
        return kept.scatter_(-1, tokens, needed)


@dataclass(frozen=True)
class LeftOnlyBeam(Limits):
    """The likeliest sentence that a beam finds, by mean log-probability of a token; no draws."""

    width: int = 8
    max_length: int = 40
    min_length: int = 1
    no_repeat: int = 0
    echo: int = 0
    early_stop: int = 1
    length_penalty: float = 1.0

    def __call__(self, problems: Problems, reverse: LanguageModel | None, seeds: Sequence[int]) -> list[str]:
        lm, samples = problems.lm, len(seeds) // problems.story.examples
        free = torch.ones_like(lm.banned)
        script = script_of(lm)._replace(never=lm.banned, glue=~free)
        search = Search(self, script, likeliest, read_on)
        found = search(problems.story.prefix, [Task(Clauses(), free)] * problems.story.examples, samples)
        texts = [(texts * samples)[:samples] for texts in found]
        return [sentences.clean(lm.decode(text.ids)) for some in texts for text in some]


def likeliest(clauses: Clauses, found: Sequence[Hypothesis], count: int) -> list[Hypothesis]:
    """All of one length: the mean ranks them as the sum does."""
    return sorted(found, key=lambda hypothesis: hypothesis.logp, reverse=True)[:count]
