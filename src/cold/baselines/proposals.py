"""Tokens that fit a gap: q(v) ~ p_forward(v | left) p_backward(v | right), or a masked LM's p(v | left, right)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from cold.errors import ColdError
from cold.lm import bundled, catalog
from cold.lm.context import Context
from cold.lm.load import choose_device, find_folder, read_masked
from cold.lm.masked import logits_at
from cold.lm.model import LanguageModel
from cold.lm.prefix import Prefix
from cold.lm.score import likelihoods, next_logits
from cold.soft import pad

TOGETHER = 128  # texts that a masked LM reads at once


class Gap(NamedTuple):
    """The ids around a place of an example's y."""

    example: int
    left: Sequence[int]
    right: Sequence[int]


class Proposer(Protocol):
    """Raw logits, which a softmax makes the proposal: of every token in a gap, and summed over a text's own tokens."""

    def logits(self, gaps: Sequence[Gap]) -> Tensor: ...

    def total(self, examples: Sequence[int], texts: Sequence[Sequence[int]]) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class Product:
    """Both LMs say what fits, one from each side; without a right-to-left LM the left side decides alone."""

    story: Context
    reverse: LanguageModel | None = None

    @cached_property
    def behind(self) -> Prefix | None:
        """What the right-to-left LM reads before y: the right text."""
        if self.reverse is None:
            return None
        return Context(self.reverse, left=self.story.left, right=self.story.right).prefix

    def logits(self, gaps: Sequence[Gap]) -> Tensor:
        examples = [gap.example for gap in gaps]
        said = next_logits(self.story.prefix.select(examples), [gap.left for gap in gaps]).log_softmax(-1)
        if self.behind is not None:
            back = next_logits(self.behind.select(examples), [gap.right[::-1] for gap in gaps])
            said = said + back.log_softmax(-1)
        return said

    def total(self, examples: Sequence[int], texts: Sequence[Sequence[int]]) -> Tensor:
        """sum_i log p_forward(y_i | y_<i) + log p_backward(y_i | y_>i): one reading in each direction."""
        found = likelihoods(self.story.prefix, examples, texts)
        if self.behind is not None:
            found = found + likelihoods(self.behind, examples, [text[::-1] for text in texts])
        return found


@dataclass(frozen=True, eq=False)
class Masked:
    """A masked LM over the vocabulary of the LM that writes, in the story's place."""

    model: Any = field(repr=False)
    mask: int
    story: Context
    window: int = 1 << 20

    def logits(self, gaps: Sequence[Gap]) -> Tensor:
        found = [self._read(gaps[first : first + TOGETHER]) for first in range(0, len(gaps), TOGETHER)]
        return torch.cat(found)

    def total(self, examples: Sequence[int], texts: Sequence[Sequence[int]]) -> Tensor:
        """sum_i logit(y_i | the rest)."""
        rows = [row for row, text in enumerate(texts) for _ in text]
        places = [i for text in texts for i in range(len(text))]
        gaps = [Gap(examples[row], texts[row][:i], texts[row][i + 1 :]) for row, i in zip(rows, places, strict=True)]
        own = torch.tensor([texts[row][i] for row, i in zip(rows, places, strict=True)])
        said = self.logits(gaps)
        chosen = said.gather(1, own.to(said.device)[:, None])[:, 0]
        return torch.zeros(len(texts), device=said.device).index_add_(0, torch.tensor(rows).to(said.device), chosen)

    @torch.no_grad()
    def _read(self, gaps: Sequence[Gap]) -> Tensor:
        lefts = [[*self.story.left_ids[gap.example], *gap.left] for gap in gaps]
        rights = [[*gap.right, *self.story.right_ids[gap.example]] for gap in gaps]
        texts = [around(left, right, self.window) for left, right in zip(lefts, rights, strict=True)]
        ids, there = pad([[*left, self.mask, *right] for left, right in texts], self.model.device)
        at = torch.tensor([len(left) for left, _ in texts], device=ids.device)
        return logits_at(self.model, ids, there, at)[:, : self.story.lm.vocab]


def around(left: Sequence[int], right: Sequence[int], window: int) -> tuple[Sequence[int], Sequence[int]]:
    """What is nearest to a gap, where a window is too small for it and both sides: half of the room each, or more."""
    room = max(0, window - 1)
    before = max(room // 2, room - len(right))
    left = left[max(0, len(left) - before) :]
    return left, right[: room - len(left)]


@dataclass(frozen=True, eq=False)
class MaskedModel:
    """A masked LM as it was loaded; `place` it in a story."""

    model: Any = field(repr=False)
    tokenizer: Any = field(repr=False)
    name: str
    fingerprint: str = ""

    @property
    def vocab(self) -> int:
        return len(self.tokenizer.get_vocab())

    @property
    def window(self) -> int:
        """The most tokens it reads; some models count two positions more than there are."""
        told = getattr(getattr(self.model, "config", None), "max_position_embeddings", None) or 1 << 20
        return int(min(told, getattr(self.tokenizer, "model_max_length", 1 << 20)))

    def check(self, lm: LanguageModel) -> None:
        """Each id must mean to it what it means to the LM that writes."""
        known = lm.tokenizer.get_vocab().items()
        if not known <= self.tokenizer.get_vocab().items() or self.tokenizer.mask_token_id is None:
            raise ColdError(
                f"the masked model {self.name!r} has another vocabulary than {lm.name!r} or no mask token: "
                "take one trained on this tokenizer, or none, and the two LMs propose"
            )

    def place(self, story: Context) -> Masked:
        self.check(story.lm)
        return Masked(self.model, int(self.tokenizer.mask_token_id), story, self.window)


def load_masked(name: str, device: str = "auto") -> MaskedModel:
    """The masked LM `name`: a bundled one, a hub id, or a folder, of the library's or of training.export.

    In fp32 everywhere: it is small, and a chain compares its logits of one text in batches of different shapes.
    """
    place = choose_device(device)
    if name == bundled.MASKED and name in bundled.names():
        model, tokenizer, mark = bundled.masked(torch.float32), bundled.masked_tokenizer(), bundled.fingerprint(name)
    else:
        if "/" not in name and not Path(name).is_dir():
            raise ColdError(
                f"there is no masked model {name!r}: use {bundled.MASKED}, a folder, or a hub id such as "
                "distilbert/distilroberta-base"
            )
        folder = find_folder(name)
        model, tokenizer = read_masked(str(folder or name))
        mark = catalog.fingerprint(folder) if folder else ""
    return MaskedModel(model.to(place).eval().requires_grad_(False), tokenizer, name, mark)
