"""The required words of one example, followed while a text is written token by token."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from cold.lm.model import LanguageModel
from cold.text.words import form_ids, forms, in_order, met, words_of

Ids = tuple[int, ...]


class Standing(NamedTuple):
    """How far a text has come."""

    found: tuple[str, ...] = ()  # required words that stand in it
    whole: int = 0  # their tokens
    covered: int = 0  # and those of a word that is half written: what decides the bank


class Wanted:
    """`after` is `of` for a text that is one token longer: most tokens make no required word, and are not looked at."""

    def __init__(self, lm: LanguageModel, words: Sequence[str], ordered: bool = False) -> None:
        self.words, self.ordered = tuple(words), ordered
        self.forms = [[tuple(ids) for ids in form_ids(lm, word)] for word in words]
        self.sizes = [min(map(len, those)) for those in self.forms]
        self.inner = {token for those in self.forms for ids in those for token in ids[:-1]}
        self.last = {spoken[-1] for word in words for form in forms(word) if (spoken := words_of(form))}

    def of(self, ids: Ids, text: str) -> Standing:
        return self._standing(ids, tuple((in_order if self.ordered else met)(text, self.words)))

    def after(self, old: Standing, ids: Ids, text: str, added: str) -> Standing:
        """The standing of `text`, which `added` ends and whose last token is that of `ids`."""
        word = _word(added)
        if word is None or word in self.last:
            return self.of(ids, text)
        if ids[-1] in self.inner:
            return self._standing(ids, old.found)
        return old if old.covered == old.whole else old._replace(covered=old.whole)

    def pieces(self, standing: Standing, ids: Ids) -> dict[int, int]:
        """The next token of every required word that is missing and may come now, and how much it would cover."""
        found: dict[int, int] = {}
        for (word, those), size in zip(self._pairs(), self.sizes, strict=True):
            if word not in standing.found:
                for form in those:
                    read = begun(ids, form)
                    covers = standing.whole + size - (len(form) - read - 1)
                    found[form[read]] = max(covers, found.get(form[read], 0))
                if self.ordered:
                    break
        return found

    def _standing(self, ids: Ids, found: tuple[str, ...]) -> Standing:
        whole = half = 0
        for (word, those), size in zip(self._pairs(), self.sizes, strict=True):
            if word in found:
                whole += size
            else:
                left = (len(form) - read for form in those if (read := begun(ids, form)))
                half = max([half, *(size - more for more in left)])
        return Standing(found, whole, whole + half)

    def _pairs(self) -> zip[tuple[str, list[Ids]]]:
        return zip(self.words, self.forms, strict=True)


def begun(ids: Ids, word: Ids) -> int:
    """How many of a word's first tokens the ids end with, short of all."""
    return next((n for n in range(len(word) - 1, 0, -1) if ids[-n:] == word[:n]), 0)


@lru_cache(maxsize=1 << 17)
def _word(added: str) -> str | None:
    """The one word that a token adds behind a space, '' where it adds none; None: it may change the word before it."""
    if not added.isascii() or not (added.startswith(" ") or not any(map(str.isalnum, added))):
        return None
    words = words_of(added)
    return None if len(words) > 1 else "".join(words)
