"""Where sentences end: the one splitter of the project."""

from __future__ import annotations

import re

# Not an end: titles and other abbreviations, single initials ("J. Smith"), and numbers ("3.5" half written).
ABBREVIATIONS = frozenset("mr mrs ms dr prof st sr jr vs etc e.g i.e u.s a.m p.m inc co ltd mt gen sgt capt".split())
# A second sentence begins inside the first: `He sat down, He was tired.` Names may stand there, these words may not.
RUN_ON = re.compile(r"[\w,;] (?:He|She|It|They|We|You|The|This|There|His|Her|Its|Their|My|Our|But|And|Then|So|When)\b")
END = re.compile(r"[.!?…]+[\"'”’)\]]*(?=\s|$)")


def split(text: str) -> list[str]:
    """Sentences of a text; what stands behind the last end is the last entry, complete or not."""
    found, start = [], 0
    for match in END.finditer(text):
        rest = text[match.end() :].lstrip()
        if _is_end(text[start : match.end()]) and not rest[:1].islower():
            found.append(text[start : match.end()].strip())
            start = match.end()
    if text[start:].strip():
        found.append(text[start:].strip())
    return found


def is_complete(text: str) -> bool:
    """Whether the text ends where a sentence ends."""
    ends = list(END.finditer(text.rstrip()))
    return bool(ends) and ends[-1].end() == len(text.rstrip()) and _is_end(text.rstrip())


def first(text: str) -> str:
    """The first sentence."""
    parts = split(text)
    return parts[0] if parts else ""


def has_loop(text: str, n: int = 3) -> bool:
    """Whether some n words in a row come twice: how a language model stutters."""
    from cold.text.words import words_of

    words = words_of(text)
    grams = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
    return len(grams) != len(set(grams))


def runs_on(text: str) -> bool:
    """Whether a word that opens a sentence stands inside with its capital, and no quotation explains it."""
    return RUN_ON.search(text) is not None


def clean(text: str) -> str:
    """One line without stray blanks."""
    return " ".join(text.split())


def _is_end(sentence: str) -> bool:
    body = sentence.rstrip("\"'”’)]")
    if body.endswith(("!", "?", "…")) or body.endswith("..."):
        return True
    last = body.rstrip(".").split()[-1:] or [""]
    word = last[0].lstrip("\"'“‘([").lower()
    return bool(word) and word not in ABBREVIATIONS and not (len(word) == 1 and word.isalpha() and word != "i")
