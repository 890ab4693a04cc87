"""Words of a text: which ones carry content, and which of those asked for are there."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from cold.errors import ColdError

if TYPE_CHECKING:
    from cold.lm.model import LanguageModel

WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")

# Function words of English, and the everyday adverbs that a part-of-speech filter would drop as well.
STOP_WORDS = frozenset(
    """a about above after again against all almost along already also although always am among an and another any
    anyone anything are aren't around as at away back be became because become been before began being below
    between both but by came can can't cannot come could couldn't did didn't do does doesn't doing don't done
    down during each either else ended enough even ever every everyone everything few finally first for from
    further gave get gets getting give go goes going gone got had hadn't has hasn't have haven't having he he'd
    he'll he's her here hers herself him himself his how however i i'd i'll i'm i've if in instead into is isn't
    it it's its itself just last later let let's like made make makes many may maybe me might mine more most
    much must my myself near never next no none nor not nothing now of off often on once one only onto or other
    others our ours ourselves out over own perhaps put quickly quite rather really s same she she'd she'll she's
    should shouldn't since so some someone something sometimes soon still such suddenly t than that that's the
    their theirs them themselves then there there's these they they'd they'll they're they've this those though
    through to together too took toward towards two under until up upon us very was wasn't we we'd we'll we're
    we've well went were weren't what when where whether which while who whom whose why will with within without
    won't would wouldn't yet you you'd you'll you're you've your yours yourself""".split()
)


def words_of(text: str) -> list[str]:
    """The words of a text in lower case; punctuation is not a word."""
    composed = unicodedata.normalize("NFC", text)  # an accent may come as a character of its own
    return [word.lower().replace("’", "'") for word in WORD.findall(composed)]


def content_words(text: str, without: str = "") -> list[str]:
    """Words that carry content, in order of appearance, each once, less those of another text."""
    known = set(words_of(without)) | STOP_WORDS
    return list(dict.fromkeys(word for word in words_of(text) if word not in known and len(word) > 1))


def forms(word: str) -> list[str]:
    """`wash|washes|washed` asks for any of them; the first stands for all where only one can."""
    return [form for part in word.split("|") if (form := part.strip())]


def met(text: str, wanted: Sequence[str]) -> list[str]:
    """Those of the wanted words or phrases that stand in the text, in any letter case, as whole words."""
    if not wanted:
        return []
    line = f" {' '.join(words_of(text))} "
    return [phrase for phrase in wanted if any(words in line for words in _spaced(phrase))]


def in_order(text: str, wanted: Sequence[str]) -> list[str]:
    """Those of the wanted, from the first on, that come one behind the other."""
    rest, found = f" {' '.join(words_of(text))} ", []
    for phrase in wanted:
        ends = [rest.index(words) + len(words) - 1 for words in _spaced(phrase) if words in rest]
        if not ends:
            break
        found.append(phrase)
        rest = rest[min(ends) :]  # from the space behind it on
    return found


@cache
def _spaced(phrase: str) -> tuple[str, ...]:
    found = (" ".join(words_of(form)) for form in forms(phrase))
    return tuple(f" {words} " for words in found if words)


def common(words: Sequence[str], others: Sequence[str]) -> int:
    """Length of the longest common subsequence, one row of the table at a time in the bits of one number."""
    places: dict[str, int] = {}
    for i, word in enumerate(words):
        places[word] = places.get(word, 0) | 1 << i
    everywhere = (1 << len(words)) - 1
    row = everywhere  # a zero bit is a place where the subsequence grows by one
    for word in others:
        matches = row & places.get(word, 0)
        row = (row + matches | row - matches) & everywhere
    return len(words) - row.bit_count()


def form_ids(lm: LanguageModel, word: str) -> list[list[int]]:
    """The token ids of each form of a word inside a sentence, that is behind a space."""
    ids = [lm.encode_after(" " + form) for form in forms(word)]
    if not ids or not all(ids):
        raise ColdError("an empty word was given: leave it out")
    return ids


def word_ids(lm: LanguageModel, word: str) -> list[int]:
    """The same of its first form alone."""
    return form_ids(lm, word)[0]


def check_fits(lm: LanguageModel, words: Sequence[str], length: int) -> None:
    for word in words:
        size = min(map(len, form_ids(lm, word)))
        if size > length:
            raise ColdError(
                f"keyword {word!r} becomes {size} tokens but the sequence has {length}: raise length to at least {size}"
            )
