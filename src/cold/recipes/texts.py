"""Templates of a recipe become texts and ids: {left}, {right}, {ending}, {words}, {keywords}, {style}."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cold.errors import ColdError
from cold.lm.model import LanguageModel
from cold.text.problems import Example
from cold.text.words import content_words, form_ids, forms


@dataclass(frozen=True, eq=False)
class Texts:
    """The examples that a recipe is built for, the style sentences before them, and who puts them into ids."""

    lm: LanguageModel
    examples: tuple[Example, ...]
    style: Sequence[str]
    length: int

    def fill(self, template: str, example: Example, place: str) -> str:
        known = {
            "left": example.left,
            "right": example.right,
            "ending": example.ending,
            "words": " ".join(forms(word)[0] for word in example.words),
            "keywords": " ".join(forms(word)[0] for word in example.keywords),
            "right_keywords": " ".join(content_words(example.right)),
            "style": "".join(f"{sentence}\n" for sentence in self.style),
        }
        try:
            return template.format_map(known)
        except (KeyError, ValueError, IndexError) as error:
            names = ", ".join("{" + name + "}" for name in known)
            raise ColdError(f"{place}: {template!r} has an unknown field ({error}): known are {names}") from error

    def filled(self, template: str, place: str) -> list[str]:
        """For every example."""
        return [self.fill(template, example, place) for example in self.examples]

    def ids(self, template: str) -> list[list[int]]:
        """The same in ids, behind a space."""
        texts = [text.strip() for text in self.filled(template, "target")]
        return [self.lm.encode_after(" " + text) if text else [] for text in texts]

    def words(self, words: Any, example: Example, place: str) -> list[str]:
        if isinstance(words, list):
            return [str(word) for word in words]
        named = {"{words}": example.words, "{keywords}": example.keywords}
        return list(named[words]) if words in named else self.fill(str(words), example, place).split()

    def forms(self, word: str) -> list[list[int]]:
        """Those that fit into the sequence."""
        return [ids for ids in form_ids(self.lm, word) if len(ids) <= self.length]
