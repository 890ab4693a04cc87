"""The three tasks of the paper as examples: what a user says, checked, with the keywords worked out."""

from __future__ import annotations

from collections.abc import Sequence

from cold.errors import ColdError
from cold.text.inflections import any_form
from cold.text.problems import Example
from cold.text.words import content_words, forms, words_of


def lexical(
    words: Sequence[str], avoid: Sequence[str] = (), inflections: bool = False, ordered: bool = False
) -> Example:
    """A sentence that contains these words (section 4.3); `wash|washes` is either of them.

    `avoid`: words that must not come. `inflections`: each word in any of its forms, `wash` as washes or washed too.
    `ordered`: in the order in which they are given.
    """
    wanted = tuple(dict.fromkeys(word.strip() for word in words))
    if not wanted:
        raise ColdError("no words were given: name at least one, as in `cold lexical dog park`")
    for word in (*wanted, *avoid):
        if not forms(word) or not all(words_of(form) for form in forms(word)):
            raise ColdError(f"{word!r} is not a word: give words of letters or digits")
    if clash := [word for word in wanted if set(map(str.lower, forms(word))) <= {w.strip().lower() for w in avoid}]:
        raise ColdError(f"{clash[0]!r} must come and must not come: take it out of one of the two lists")
    if inflections:
        wanted = tuple("|".join(any_form(form) for form in forms(word)) for word in wanted)
    return Example(words=wanted, ordered=ordered, avoid=tuple(avoid), keywords=wanted)


def abductive(left: str, right: str) -> Example:
    """A sentence between two others (section 4.1); keywords are the right text's content words that the left lacks."""
    _require(left, "left")
    _require(right, "right")
    return Example(left=left.strip(), right=right.strip(), keywords=tuple(content_words(right, without=left)))


def counterfactual(context: str, ending: str) -> Example:
    """A new ending for a changed context that stays close to the old ending (section 4.2)."""
    _require(context, "context")
    _require(ending, "ending")
    return Example(left=context.strip(), ending=ending.strip(), keywords=tuple(content_words(ending)))


def _require(text: str, name: str) -> None:
    if not words_of(text):
        raise ColdError(f"the {name} text is empty: give a sentence")
