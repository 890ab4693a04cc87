"""Left-only: the LM continues the left text to the end of a sentence and knows of no constraint."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from cold.decoder import Decoding
from cold.lm.model import LanguageModel
from cold.recipes import Recipe, build
from cold.sampling.noise import Noise
from cold.tasks.solve import seeds
from cold.text import sentences
from cold.text.problems import Example, Problems

MAX_LENGTH = 40  # tokens


def left_only(
    recipe: Recipe, lm: LanguageModel, reverse: LanguageModel | None, batch: Sequence[Example], greedy: bool = False
) -> list[Decoding]:
    """Samples behind the recipe's left text, judged by its energy and selected by its rule; greedy: one sample."""
    job = build(recipe.with_(samples=1) if greedy else recipe, lm, reverse, batch)
    rows = seeds(recipe.with_(samples=1) if greedy else recipe, job)
    return job.decoder.judge(job.problems, write(job.problems, rows, greedy), rows)


@torch.no_grad()
def write(problems: Problems, rows: Sequence[int], greedy: bool) -> list[str]:
    """One sentence per row, drawn from the LM with the row's own noise."""
    lm = problems.lm
    samples = len(rows) // problems.story.examples
    prefix = problems.story.prefix.select([row // samples for row in range(len(rows))])
    texts: list[list[int]] = [[] for _ in rows]
    active = list(range(len(rows)))
    for step in range(MAX_LENGTH):
        assert prefix.logits is not None
        logits = prefix.logits.masked_fill(lm.banned, -float("inf"))
        if not greedy:
            noise = Noise([rows[row] for row in active], step, lm.device)
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
