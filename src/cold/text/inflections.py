"""The forms of a word: wash, washes, washed, washing; by lemminflect's dictionary and rules of English."""

from __future__ import annotations

from functools import cache
from itertools import chain

from cold.optional import library

GUESSED = ("NOUN", "VERB")  # for a word that no dictionary has


@cache
def inflections(word: str) -> frozenset[str]:
    """The forms of all the lemmas that a word may have: hung, hang, hangs, hanging, hanged."""
    tool, word = library("lemminflect"), word.lower()
    lemmas = tool.getAllLemmas(word)
    if lemmas:
        groups = [tool.getAllInflections(lemma, kind) for kind, some in lemmas.items() for lemma in some]
    else:
        guesses = [(lemma, kind) for kind in GUESSED for lemma in tool.getAllLemmasOOV(word, kind)[kind]]
        groups = [tool.getAllInflectionsOOV(lemma, kind) for lemma, kind in guesses]
    forms = chain.from_iterable(chain.from_iterable(group.values()) for group in groups)
    return frozenset({word, *(form.lower() for form in forms)})


def any_form(word: str) -> str:
    """`wash` -> `wash|washed|washes|washing`: the word itself first. Of a phrase, its last word is inflected."""
    head, _, last = word.rpartition(" ")
    others = sorted(inflections(last) - {last.lower()})
    return "|".join([word, *(f"{head} {form}".strip() for form in others)])
