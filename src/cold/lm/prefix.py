"""Texts of different lengths that an LM has read once: kept as keys and values, reused by every step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from cold.errors import ColdError
from cold.lm.model import KeyValues, LanguageModel

TOGETHER = 64  # texts read at once


@dataclass(frozen=True, eq=False)
class Prefix:
    """Rows padded at their far end, so that whatever comes next stands at one index for all rows."""

    lm: LanguageModel
    past: KeyValues  # [rows, heads, tokens, width] per layer; empty when nothing was read
    mask: Tensor  # [rows, tokens], 1 where there is a token
    states: Tensor | None  # of the last token [rows, width], from which the LM says the next; None: nothing was read

    @classmethod
    @torch.no_grad()
    def of(cls, lm: LanguageModel, texts: Sequence[Sequence[int]]) -> Prefix:
        """Each distinct text is read once, with those of its own length (no padding inside attention)."""
        check_window(lm, texts)
        distinct = {tuple(ids): None for ids in texts}
        by_size = {ids: found for size in {len(ids) for ids in distinct} for ids, found in _read(lm, distinct, size)}
        read = {ids: by_size[ids] for ids in distinct}
        longest = max(len(ids) for ids in distinct)
        mask = torch.zeros(len(distinct), longest, dtype=torch.long, device=lm.device)
        for row, ids in enumerate(distinct):
            mask[row, longest - len(ids) :] = 1
        if longest == 0:
            return cls(lm, (), mask, None).select([0] * len(texts))
        if min(len(ids) for ids in distinct) == 0:
            raise ColdError("one text of the batch is empty and another is not: give every row a separator or a text")
        layers = zip(*(past for past, _ in read.values()), strict=True)
        past = tuple(
            (_stack([k for k, _ in layer], longest), _stack([v for _, v in layer], longest)) for layer in layers
        )
        states = torch.cat([last for _, last in read.values()])
        row_of = {ids: row for row, ids in enumerate(distinct)}
        return cls(lm, past, mask, states).select([row_of[tuple(ids)] for ids in texts])

    @cached_property
    def logits(self) -> Tensor | None:
        """Of the next token [rows, vocab], fp32."""
        return None if self.states is None else self.lm.logits(self.states)

    @property
    def rows(self) -> int:
        return self.mask.shape[0]

    @property
    def lengths(self) -> Tensor:
        return self.mask.sum(1)

    def select(self, index: Sequence[int] | Tensor) -> Prefix:
        """The given rows, in the given order, repeats allowed: samples of one text, survivors of a beam."""
        rows = torch.as_tensor(index, device=self.mask.device)
        past = tuple((k[rows], v[rows]) for k, v in self.past)
        return Prefix(self.lm, past, self.mask[rows], None if self.states is None else self.states[rows])

    @torch.no_grad()
    def append(self, embeds: Tensor) -> Prefix:
        """Read more tokens [rows, n, width] in every row."""
        n = embeds.shape[1]
        if self.mask.shape[1] + n > self.lm.window:  # counted only when it may be too much: it waits for the GPU
            require_window(self.lm, int(self.lengths.max()) + n)
        positions = self.lengths[:, None] + torch.arange(n, device=embeds.device)
        mask = torch.cat([self.mask, self.mask.new_ones(self.rows, n)], 1)
        states, past = self.lm.states(embeds, self.past, mask, positions)
        return Prefix(self.lm, past, mask, states[:, -1])

    def append_ids(self, ids: Tensor) -> Prefix:
        """Read more hard tokens [rows] or [rows, n] in every row."""
        return self.append(self.lm.embed(ids.view(self.rows, -1)))


def check_window(lm: LanguageModel, texts: Sequence[Sequence[int]], more: int = 0) -> None:
    require_window(lm, max((len(ids) for ids in texts), default=0) + more)


def require_window(lm: LanguageModel, tokens: int) -> None:
    if tokens > lm.window:
        raise ColdError(
            f"a context of {tokens} tokens does not fit into the window of {lm.name!r} ({lm.window} tokens): "
            "shorten the text or take a model with a longer window"
        )


def _read(
    lm: LanguageModel, texts: Iterable[tuple[int, ...]], size: int
) -> Iterator[tuple[tuple[int, ...], tuple[KeyValues, Tensor]]]:
    """The texts of that size, each with its keys and values and its last state."""
    alike = [ids for ids in texts if len(ids) == size]
    for first in range(0, len(alike), TOGETHER):
        some = alike[first : first + TOGETHER]
        if not size:
            yield some[0], ((), torch.empty(0))
            continue
        rows = torch.tensor(some, device=lm.device)
        positions = torch.arange(size, device=lm.device).expand(len(some), -1)
        states, past = lm.states(lm.embed(rows), (), torch.ones_like(rows), positions)
        for n, ids in enumerate(some):
            one = slice(n, n + 1)
            yield ids, (tuple((k[one], v[one]) for k, v in past), states[one, -1])


def _stack(rows: list[Tensor], longest: int) -> Tensor:
    """Zeros, never garbage, where a row is shorter: a masked NaN would still poison the sum."""
    return torch.cat([torch.nn.functional.pad(r, (0, 0, longest - r.shape[2], 0)) for r in rows])
