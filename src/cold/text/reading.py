"""How the LM reads a text in its place: what it thinks of the text itself, and of what follows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cold.lm.context import Context
from cold.lm.score import likelihoods


class Likelihood(NamedTuple):
    """Both are means, so that neither the longer text nor the longer story decides alone."""

    own: float  # log p(y | left) per token of y
    right: float  # log p(right | left, y) per token of the right text; 0 where there is none

    @property
    def both(self) -> float:
        return self.own + self.right


def read(story: Context, index: Sequence[int], texts: Sequence[Sequence[int]]) -> list[Likelihood]:
    """Of texts in ids, each in the place of the example that `index` names."""
    rights = story.right_ids
    once = list(dict.fromkeys((i, tuple(text)) for i, text in zip(index, texts, strict=True)))  # samples often agree
    rows = [i for i, _ in once]
    own = likelihoods(story.prefix, rows, [text for _, text in once]).tolist()
    joint = likelihoods(story.prefix, rows, [(*text, *rights[i]) for i, text in once]).tolist() if any(rights) else own
    found = {
        (i, text): Likelihood(alone / max(len(text), 1), (both - alone) / max(len(rights[i]), 1))
        for (i, text), alone, both in zip(once, own, joint, strict=True)
    }
    return [found[i, tuple(text)] for i, text in zip(index, texts, strict=True)]
