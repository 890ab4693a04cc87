"""The right-to-left model that belongs to a left-to-right one: both must share one vocabulary."""

from __future__ import annotations

from typing import NamedTuple

from cold.lm import bundled
from cold.lm.load import load
from cold.lm.model import LanguageModel

REVERSE = "mini-reverse"
HOW = "docs/train-a-reverse-model.md shows how to train one"


class Partner(NamedTuple):
    """A reverse model, or None; and what to tell the user about the choice."""

    reverse: LanguageModel | None
    note: str = ""


def find_partner(lm: LanguageModel, wish: LanguageModel | str | None) -> Partner:
    """`wish`: auto takes the bundled model if it fits, none leaves it out, anything else is loaded by that name."""
    if wish is None or wish == "none":
        return Partner(None)
    if isinstance(wish, LanguageModel):
        return Partner(wish)
    place, kind = str(lm.device), str(lm.dtype).removeprefix("torch.")
    if wish != "auto":
        return Partner(load(wish, place, kind, reverse=True))
    if not shares_vocabulary(lm):
        return Partner(None, f"no right-to-left model is known for the vocabulary of {lm.name!r}: {HOW}")
    told = f"{REVERSE} reads right to left for {lm.name!r}: they share a vocabulary"
    return Partner(load(REVERSE, place, kind), told)


def shares_vocabulary(lm: LanguageModel) -> bool:
    """Whether each id of the model means what it means to the bundled pair."""
    words = bundled.index()["models"][REVERSE]["config"]["vocab_size"]
    if lm.tokenizer is None or lm.vocab != words:
        return False
    return bool(lm.tokenizer.get_vocab() == bundled.tokenizer().get_vocab())
