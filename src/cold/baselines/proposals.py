"""Tokens that fit a gap: q(v) ~ p_forward(v | left) p_backward(v | right), or a masked LM's p(v | left, right)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from transformers import AutoModelForMaskedLM, AutoTokenizer

from cold.errors import ColdError
from cold.lm.context import Context
from cold.lm.model import LanguageModel
from cold.lm.prefix import Prefix
from cold.lm.score import log_likelihood
from cold.soft import pad

TOGETHER = 128  # texts that a masked LM reads at once
COPIED = 1 << 28  # numbers of keys and values: a text carries a copy of those of what stands before it


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
        ids, there = pad([[*a, self.mask, *b] for a, b in zip(lefts, rights, strict=True)], self.model.device)
        out = self.model(input_ids=ids, attention_mask=there.long()).logits
        at = torch.tensor([len(left) for left in lefts], device=ids.device)
        said: Tensor = out[torch.arange(len(gaps), device=ids.device), at, : self.story.lm.vocab].float()
        return said


@dataclass(frozen=True, eq=False)
class MaskedModel:
    """A masked LM as it was loaded; `place` it in a story."""

    model: Any = field(repr=False)
    tokenizer: Any = field(repr=False)
    name: str

    def place(self, story: Context) -> Masked:
        known = story.lm.tokenizer.get_vocab().items()
        if not known <= self.tokenizer.get_vocab().items() or self.tokenizer.mask_token_id is None:
            raise ColdError(
                f"the masked model {self.name!r} has another vocabulary than {story.lm.name!r} or no mask token: "
                "take one trained on this tokenizer, or none, and the two LMs propose"
            )
        return Masked(self.model, int(self.tokenizer.mask_token_id), story)


def load_masked(name: str, device: str = "cpu") -> MaskedModel:
    """A masked LM of the Hugging Face hub or of a folder."""
    model = AutoModelForMaskedLM.from_pretrained(name).to(device).eval().requires_grad_(False)
    return MaskedModel(model, AutoTokenizer.from_pretrained(name), name)


@torch.no_grad()
def grow(prefix: Prefix, texts: Sequence[Sequence[int]]) -> Prefix:
    """Each row's prefix with its own text behind it, texts of any length in one reading."""
    if not any(texts):
        return prefix
    assert prefix.states is not None
    ids, there = pad(texts, prefix.mask.device)
    positions = prefix.lengths[:, None] + torch.arange(ids.shape[1], device=ids.device)
    mask = torch.cat([prefix.mask, there.long()], 1)
    states, past = prefix.lm.states(prefix.lm.embed(ids), prefix.past, mask, positions)
    states = torch.cat([prefix.states[:, None], states], 1)
    last = states[torch.arange(len(texts), device=ids.device), there.sum(1)]
    return Prefix(prefix.lm, past, mask, last)


def next_logits(prefix: Prefix, texts: Sequence[Sequence[int]]) -> Tensor:
    """Of the token behind each row's prefix and text [rows, vocab], fp32."""
    logits = grow(prefix, texts).logits
    assert logits is not None
    return logits


def likelihoods(prefix: Prefix, index: Sequence[int], texts: Sequence[Sequence[int]]) -> Tensor:
    """The log-probability of each text behind its own one of the prefixes, as many at a time as copies of them fit."""
    size = sum(keys[0].numel() + values[0].numel() for keys, values in prefix.past)
    some = max(1, COPIED // max(size, 1))
    parts = [slice(first, first + some) for first in range(0, len(texts), some)]
    return torch.cat([log_likelihood(prefix.select(index[part]), texts[part]) for part in parts])


def shared_likelihoods(prefix: Prefix, examples: Sequence[int], groups: Sequence[Sequence[list[int]]]) -> Tensor:
    """The same for groups of texts, one after the other; what the texts of a group begin with is read only once."""
    lefts = [_common(group) if len(group) > 1 else [] for group in groups]
    begun = likelihoods(prefix, examples, lefts)
    index = [n for n, group in enumerate(groups) for _ in group]
    tails = [text[len(left) :] for left, group in zip(lefts, groups, strict=True) for text in group]
    return begun[index] + likelihoods(grow(prefix.select(examples), lefts), index, tails)


def _common(texts: Sequence[list[int]]) -> list[int]:
    """What all of them begin with."""
    size = 0
    while all(len(text) > size and text[size] == texts[0][size] for text in texts):
        size += 1
    return texts[0][:size]
