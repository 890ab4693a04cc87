"""From a [[terms]] table to a constraint: one row for each kind, with what it makes of its words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from cold.constraints import (
    At,
    Classifier,
    Constraint,
    Count,
    Ends,
    Fluency,
    Function,
    Future,
    Keywords,
    Meaning,
    Similarity,
    train_probe,
)
from cold.errors import ColdError
from cold.lm.context import Context, inner_ids
from cold.lm.load import load_classifier
from cold.lm.shortlist import Shortlisted
from cold.recipes.check import call, find_function, take
from cold.recipes.texts import Texts
from cold.text.beam import TERMINATORS
from cold.text.words import form_ids


class Asked(NamedTuple):
    """A term as a recipe writes it, its contexts and functions already looked up."""

    table: dict[str, Any]
    place: str
    texts: Texts
    story: Context

    def take(self, key: str) -> Any:
        return take(self.table, key, self.place)

    def instead(self, key: str, **values: Any) -> dict[str, Any]:
        """The table with `values` in the place of `key`."""
        return {k: v for k, v in self.table.items() if k != key} | values


def _as_it_is(asked: Asked) -> dict[str, Any]:
    return asked.table


def _targets(asked: Asked) -> dict[str, Any]:
    return asked.instead("target", targets=asked.texts.ids(str(asked.take("target"))))


def _with_table(asked: Asked) -> dict[str, Any]:
    return {**_targets(asked), "lm": asked.texts.lm}


def _keywords(asked: Asked) -> dict[str, Any]:
    texts, words = asked.texts, asked.take("words")
    per_example = [texts.words(words, example, asked.place) for example in texts.examples]
    return asked.instead("words", words=[[texts.forms(word) for word in some] for some in per_example])


def _count(asked: Asked) -> dict[str, Any]:
    words = asked.take("words")
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ColdError(f"{asked.place}: words is {words!r}: give a list of words, the same for every example")
    return asked.instead("words", words=[ids for word in words for ids in form_ids(asked.texts.lm, word)])


def _at(asked: Asked) -> dict[str, Any]:
    """At the start as it opens a line or follows a text, elsewhere behind a space."""
    lm, word = asked.texts.lm, str(asked.take("word"))
    opens = asked.table.get("place", 0) == 0
    return asked.instead(
        "word", word=inner_ids(lm, asked.story.left_texts[0], word) if opens else form_ids(lm, word)[0]
    )


def _ends(asked: Asked) -> dict[str, Any]:
    strings = asked.texts.lm.token_strings
    return {"tokens": [token for token, text in enumerate(strings) if text in TERMINATORS]} | asked.table


def _probe(asked: Asked) -> dict[str, Any]:
    return {**asked.table, "lm": asked.texts.lm}


def _classifier(asked: Asked) -> dict[str, Any]:
    return asked.instead("model", model=load_classifier(str(asked.take("model")), asked.texts.lm))


class Kind(NamedTuple):
    make: Callable[..., Constraint]
    prepare: Callable[[Asked], dict[str, Any]] = _as_it_is  # what `make` is called with


TERMS: dict[str, Kind] = {
    "fluency": Kind(Fluency),
    "future": Kind(Future),
    "similarity": Kind(Similarity, _targets),
    "keywords": Kind(Keywords, _keywords),
    "count": Kind(Count, _count),
    "at": Kind(At, _at),
    "ends": Kind(Ends, _ends),
    "meaning": Kind(Meaning, _with_table),
    "probe": Kind(train_probe, _probe),
    "classifier": Kind(Classifier, _classifier),
}


def make_term(kind: str, asked: Asked) -> Constraint:
    """One of the kinds above, or a function of the user's own."""
    term: Constraint
    if (":" in kind or kind == "classifier") and isinstance(asked.texts.lm, Shortlisted):
        raise ColdError(f"{asked.place}: {kind!r} knows the LM's own token ids: leave the shortlist out, or this term")
    if ":" in kind:
        term = call(Function, asked.table, asked.place, function=find_function(kind, asked.place))
        return term
    if kind not in TERMS:
        raise ColdError(f"{asked.place}: there is no term {kind!r}: use {', '.join(TERMS)} or module:function")
    term = call(TERMS[kind].make, TERMS[kind].prepare(asked), asked.place)
    return term
