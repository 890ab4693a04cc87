"""Completion: the LM writes on until the sentence of y_T ends (section 3.4, "long sequences")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from cold.lm.model import LanguageModel
from cold.lm.prefix import Prefix
from cold.text import sentences
from cold.text.problems import Problems
from cold.text.words import met, words_of

Complete = Callable[[Problems, list[list[int]]], list[str]]  # problems and ids per row -> texts


@dataclass(frozen=True)
class GreedyCompletion:
    """Greedy continuation of left text + y until the sentence is whole or `max_length` tokens are reached.

    `no_repeat`: never write the same n tokens twice (0: as written, without that care). A continuation with a word to
    be avoided is dropped: y stays as it was written.
    """

    max_length: int = 40
    no_repeat: int = 0

    def __call__(self, problems: Problems, ids: list[list[int]]) -> list[str]:
        samples = len(ids) // problems.story.examples
        lefts = [left for left in problems.story.left_ids for _ in range(samples)]
        texts = _continue(problems.lm, lefts, ids, self.max_length, self.no_repeat, True)
        avoided = [example.avoid for example in problems.examples for _ in range(samples)]
        slips = [bool(met(text, avoid)) for text, avoid in zip(texts, avoided, strict=True)]
        return [sentences.clean(problems.lm.decode(ids[row]) if slips[row] else text) for row, text in enumerate(texts)]


@dataclass(frozen=True)
class NoCompletion:
    """The tokens of y as they are: for filling a gap of known length."""

    def __call__(self, problems: Problems, ids: list[list[int]]) -> list[str]:
        return [sentences.clean(problems.lm.decode(row)) for row in ids]


@dataclass(frozen=True)
class ReleasedCompletion:
    """As released: greedy continuation of y alone, then whole sentences until they have `length` words."""

    max_length: int = 40

    def __call__(self, problems: Problems, ids: list[list[int]]) -> list[str]:
        start = [[problems.lm.separator]] * len(ids)  # our LMs cannot start from nothing
        return [
            _until_words(text, problems.length)
            for text in _continue(problems.lm, start, ids, self.max_length, 0, False)
        ]


def _until_words(text: str, count: int) -> str:
    kept: list[str] = []
    for sentence in sentences.split(sentences.clean(text)):
        kept.append(sentence)
        if sum(len(words_of(s)) for s in kept) >= count:
            break
    return " ".join(kept)


@torch.no_grad()
def _continue(
    lm: LanguageModel, lefts: Sequence[list[int]], ids: list[list[int]], max_length: int, no_repeat: int, stop: bool
) -> list[str]:
    """Texts of y and its greedy continuation; with `stop`, only as far as the sentence that holds y_T."""
    texts = [list(row) for row in ids]
    active = [row for row, y in enumerate(texts) if not (stop and sentences.is_complete(lm.decode(y)))]
    if not active:
        return [lm.decode(y) for y in texts]
    prefix = Prefix.of(lm, [[*lefts[row], *texts[row]] for row in active])
    # A few tokens beyond the limit may finish a word, so that none is left half.
    while active:
        assert prefix.logits is not None
        logits = prefix.logits.masked_fill(lm.banned, -float("inf"))
        for i, row in enumerate(active):
            if forbidden := repeats(texts[row], no_repeat):
                logits[i, forbidden] = -float("inf")
        chosen = logits.argmax(-1)
        going: list[int] = []
        for i, (row, token) in enumerate(zip(active, chosen.tolist(), strict=True)):
            size = len(texts[row])
            over = size >= max_length + 8 or len(lefts[row]) + size >= lm.window
            if over or (size >= max_length and not _inside_word(lm, token)):
                continue
            texts[row].append(token)
            if not (stop and _sentence_over(lm, texts[row], len(ids[row]))):
                going.append(i)
        active = [active[i] for i in going]
        if active:
            prefix = prefix.select(going).append_ids(chosen[going])
    return [_cut(lm.decode(y), lm.decode(y[: len(ids[row])]), stop) for row, y in enumerate(texts)]


def repeats(ids: Sequence[int], n: int) -> list[int]:
    """Tokens that would make the last n tokens a repetition."""
    if n < 1 or len(ids) < n:
        return []
    tail = tuple(ids[len(ids) - n + 1 :])
    return [ids[i + n - 1] for i in range(len(ids) - n + 1) if tuple(ids[i : i + n - 1]) == tail]


def _inside_word(lm: LanguageModel, token: int) -> bool:
    return lm.token_strings[token][:1].isalnum()


def _sentence_over(lm: LanguageModel, ids: Sequence[int], written: int) -> bool:
    text = lm.decode(ids)
    behind = text[len(lm.decode(ids[:written])) :]
    return sentences.is_complete(text) or "\n" in behind


def _cut(text: str, written: str, stop: bool) -> str:
    """Drop what stands behind the end of the sentence of y_T: a line that the LM opened, or half a sentence."""
    if not stop:
        return text
    head, behind = text[: len(written)], text[len(written) :]
    return head + behind.split("\n")[0]
