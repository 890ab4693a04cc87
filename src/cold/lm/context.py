"""A context: what an LM reads around and of the soft sequence, left + y~ + right, once per step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from cold.errors import ColdError
from cold.kernels import soft_tokens
from cold.lm.candidates import Candidates
from cold.lm.model import LanguageModel
from cold.lm.prefix import Prefix, check_window
from cold.soft import SoftSequence, expand, pad

Text = str | Sequence[int]  # a text, or its token ids
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Context:
    """One entry per example, texts in reading order; a right-to-left LM flips inside.

    `temperature`: the LM reads softmax(y~ / temperature). `straight_through`: its gradient lacks the 1 / temperature.
    `top_k`: the LM reads y~ only within its own k best tokens of the step before, plus `widen`, as released.
    `separator`: open with the document separator (the published code opens with the bare text).
    `keep`: read only so many of the last tokens on the left (the published future term keeps 1); 0 keeps all.
    """

    lm: LanguageModel
    left: Text | Sequence[Text] = ""
    right: Text | Sequence[Text] = ""
    temperature: float = 1.0
    straight_through: bool = False
    top_k: int = 0
    widen: Sequence[Sequence[int]] = ()
    separator: bool = True
    keep: int = 0

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise ColdError(f"the temperature of a context is {self.temperature}: it must be above 0")
        sides = {len(side) for side in (_entries(self.left), _entries(self.right))} - {1}
        if len(sides) > 1:
            raise ColdError(
                f"a context has {len(_entries(self.left))} left and {len(_entries(self.right))} right texts: "
                "give one of each per example"
            )
        for name in ("top_k", "keep"):
            if getattr(self, name) < 0:
                raise ColdError(f"{name} of a context is {getattr(self, name)}: it must be at least 0, which means all")
        if len(self.widen) not in (0, 1, self.examples):
            raise ColdError(f"a context of {self.examples} examples has {len(self.widen)} sets to widen: give one each")

    @property
    def examples(self) -> int:
        return max(len(_entries(self.left)), len(_entries(self.right)))

    @cached_property
    def left_ids(self) -> list[list[int]]:
        """What stands before y, per example; the separator where there is nothing else."""
        ids = [left_ids(self.lm, text, self.separator) for text in _entries(self.left)]
        return self._repeat([row[-self.keep :] for row in ids])

    @cached_property
    def right_ids(self) -> list[list[int]]:
        """What stands after y, per example, glued with one space."""
        return self._repeat([right_ids(self.lm, text) for text in _entries(self.right)])

    @property
    def left_texts(self) -> list[str]:
        """The left text of each example; '?' stands for one given as ids, which never opens a line."""
        return self._repeat([text if isinstance(text, str) else "?" for text in _entries(self.left)])

    @property
    def opens_line(self) -> list[bool]:
        """Per example, whether y opens a line, so that its first token carries no space."""
        return [starts_line(text) for text in self.left_texts]

    def y_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of texts in y's place, one per row: behind a space, at the start of a line or of the document."""
        lefts = self._repeat(list(_entries(self.left)))
        samples = len(texts) // self.examples
        return [inner_ids(self.lm, lefts[row // samples], text.strip()) for row, text in enumerate(texts)]

    @property
    def before(self) -> list[list[int]]:
        """What the LM reads before y, in its own direction."""
        if not self.lm.reverse:
            return self.left_ids
        start = [self.lm.separator] if self.separator else []
        return [start + ids[::-1] for ids in self.right_ids]

    @property
    def after(self) -> list[list[int]]:
        """What the LM reads after y, in its own direction."""
        if not self.lm.reverse:
            return self.right_ids
        plain = (self.lm.encode(text.strip()) if isinstance(text, str) else list(text) for text in _entries(self.left))
        return self._repeat([ids[::-1] for ids in plain])

    @cached_property
    def prefix(self) -> Prefix:
        """What stands before y, read: once, for every stage that starts from there."""
        return Prefix.of(self.lm, self.before)

    def bind(self, rows: int, length: int) -> Reader:
        """Encode what does not change between steps."""
        return Reader(self, rows, length)

    def _repeat(self, entries: list[T]) -> list[T]:
        return entries * self.examples if len(entries) == 1 else entries


class Reading(NamedTuple):
    """What the LM says of one soft sequence. All logits are fp32 and in reading order; none where no term asks."""

    predicted: Tensor  # of y at the positions of `covers` [rows, length', vocab]
    covers: slice  # all of y, less the one position that an LM without any context cannot predict
    after: Tensor  # of the text behind y, in the LM's direction [rows, K, vocab]
    after_ids: Tensor  # [rows, K]
    after_mask: Tensor  # [rows, K], 1 where there is a token
    candidates: Candidates | None  # with top_k: the k best predicted tokens and `widen`


class Wish(NamedTuple):
    """Which logits of a reading are wanted, and through which a gradient must flow."""

    predicted: bool = True
    after: bool = True
    predicted_slope: bool = True
    after_slope: bool = True

    @property
    def slope(self) -> bool:
        return self.predicted_slope or self.after_slope


ALL = Wish()


class Reader:
    """A context bound to a number of rows: reads the soft sequence, with the prefix encoded once."""

    def __init__(self, context: Context, rows: int, length: int) -> None:
        lm, after = context.lm, context.after
        check_window(lm, [b + a for b, a in zip(context.before, after, strict=True)], length)
        self.context, self.length = context, length
        self.prefix = context.prefix
        index = torch.arange(context.examples, device=lm.device).repeat_interleave(rows // context.examples)
        self.first = None if self.prefix.states is None else self.prefix.states[index]
        if not lm.looks_ahead:
            self.prefix = self.prefix.select(index)
        ids, there = pad(after, lm.device)
        self.after_ids, self.after_mask = expand(ids, rows), expand(there.long(), rows)
        longest = ids.shape[1]
        self.after_embeds = lm.embed(self.after_ids[:, :-1])
        self.widen = _widen(context, rows) if context.widen else None
        # What every step reads: soft tokens, and the text behind them but for its last token.
        behind = max(longest - 1, 0)
        self.tokens = length + behind if longest else length - 1
        ones = self.prefix.mask.new_ones(rows, self.tokens - behind)
        there = torch.cat([expand(self.prefix.mask, rows), ones, self.after_mask[:, :behind]], 1)
        self.mask = there if lm.slides else causal_mask(there, self.tokens, lm.dtype)
        self.positions = expand(self.prefix.lengths, rows)[:, None] + torch.arange(self.tokens, device=lm.device)

    def read(self, y: SoftSequence, memory: Candidates | None, wish: Wish = ALL) -> Reading:
        """`memory`: the candidates of the step before; before the first step no token is ruled out."""
        return self.read_embeds(self.embed(y, memory), wish)

    def read_embeds(self, embeds: Tensor, wish: Wish) -> Reading:
        lm, length, top_k = self.context.lm, self.length, self.context.top_k
        if lm.reverse:
            embeds = embeds.flip(1)
        inputs = torch.cat([embeds, self.after_embeds], 1) if self.after_ids.shape[1] else embeds[:, :-1]
        states = self._states(inputs)
        said, behind = states[:, : length - 1], states[:, length - 1 :]
        if self.first is not None:
            said = torch.cat([self.first[:, None], said], 1)
        covers = slice(None) if self.first is not None else slice(0, -1) if lm.reverse else slice(1, None)
        if lm.reverse:
            said = said.flip(1)
        predicted = after = torch.zeros(len(embeds), 0, lm.vocab, device=lm.device)
        if wish.predicted or top_k:
            predicted = lm.logits(said if wish.predicted_slope else said.detach())
        if wish.after and self.after_ids.shape[1]:
            after = lm.logits(behind if wish.after_slope else behind.detach())
        candidates = Candidates.best(predicted.detach(), top_k, self.widen) if top_k else None
        return Reading(predicted, covers, after, self.after_ids, self.after_mask, candidates)

    def embed(self, y: SoftSequence, memory: Candidates | None) -> Tensor:
        """The expected embedding of softmax(y~ / temperature), within the candidates if there are any."""
        lm, how = self.context.lm, (self.context.temperature, self.context.straight_through)
        if memory is not None:
            return lm.embed_soft(soft_tokens(memory.pick(y.logits), *how), memory.ids)
        probs = y.once(how, lambda: soft_tokens(y.logits, *how))
        table = (lm.table.data_ptr(), lm.embedding_scale)  # a pair of LMs may share one
        return y.once((how, table), lambda: lm.embed_soft(probs))

    def _states(self, inputs: Tensor) -> Tensor:
        if self.tokens == 0:
            return inputs
        lm, past = self.context.lm, self.prefix.past
        if lm.looks_ahead and past:
            return lm.states_behind(inputs, past, self.mask, self.positions)
        return lm.states(inputs, past, self.mask, self.positions)[0]


def causal_mask(there: Tensor, tokens: int, dtype: torch.dtype) -> Tensor:
    """What the last `tokens` of a text see of it: 0 or a large negative number [rows, 1, tokens, all].

    Made once: the library would make it anew at every step, and look at its values, which waits for the device.
    """
    whole = there.shape[1]
    at = torch.arange(whole, device=there.device)
    sees = (at <= at[whole - tokens :, None]) & (there[:, None] == 1) | (at == at[whole - tokens :, None])
    return torch.zeros(sees.shape, dtype=dtype, device=there.device).masked_fill(~sees, torch.finfo(dtype).min)[:, None]


def starts_line(left: Text) -> bool:
    """Whether y opens a line, so that its first token carries no space."""
    return isinstance(left, str) and (not left.strip() or left.rstrip(" ").endswith("\n"))


def left_ids(lm: LanguageModel, text: Text, separator: bool) -> list[int]:
    """A left text in ids. Blanks around it go; a final newline stays, since it says that y opens a line."""
    if not isinstance(text, str):
        return list(text) if text or not separator else [lm.separator]
    body = text.strip()
    if not body:
        return [lm.separator]
    start = [lm.separator] if separator else []
    return start + lm.encode(body + "\n" if starts_line(text) else body)


def inner_ids(lm: LanguageModel, left: Text, text: str) -> list[int]:
    """A text in ids as it follows `left`; a SentencePiece tokenizer marks the start of a document, not of a line."""
    if not isinstance(left, str) or not starts_line(left):
        return lm.encode_after(" " + text)
    return lm.encode_after(text, "\n") if left.strip() else lm.encode(text)


def right_ids(lm: LanguageModel, text: Text) -> list[int]:
    """A right text in ids, behind one space."""
    if not isinstance(text, str):
        return list(text)
    return lm.encode_after(" " + text.strip()) if text.strip() else []


def _entries(side: Text | Sequence[Text]) -> Sequence[Text]:
    """One text, or one per example."""
    if isinstance(side, str) or (len(side) > 0 and isinstance(side[0], int)):
        return [side]  # type: ignore[list-item]
    return list(side) or [""]  # type: ignore[arg-type]


def _widen(context: Context, rows: int) -> Candidates:
    """The tokens that always stay candidates, per row [rows, 1, n]."""
    ids, there = pad([list(dict.fromkeys(ids)) for ids in context.widen], context.lm.device)
    return Candidates(expand(ids, rows)[:, None], expand(there, rows)[:, None])
