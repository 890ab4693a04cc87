"""Word edits: the fewest that turn one text into another, how many there are, and how far two rewrites share them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from cold.evaluation.metrics.given import check_references
from cold.optional import library
from cold.text.words import words_of

SYMBOLS = 256  # edlib takes no more distinct words
STEP = re.compile(r"(\d+)([=XID])")


class Edit(NamedTuple):
    """One change: its kind, the place in the original, and the word that comes (or goes, for a deletion)."""

    kind: str
    place: int
    word: str


def edit_overlap(original: str, generated: str, golds: Sequence[str]) -> float:
    """F1, 0..100, between the edits that a text and a gold text make to the original; the best over the golds."""
    check_references(golds)
    made = Counter(edits(original, generated))
    return max(_f1(made, Counter(edits(original, gold))) for gold in golds)


def edit_similarity(generated: str, original: str) -> float:
    """100 * (1 - edits / words of the longer text): 100 is the same words."""
    left, right = words_of(generated), words_of(original)
    longest = max(len(left), len(right))
    if not longest:
        return 100.0
    changes = sum(step != "=" for step in align(left, right))
    return 100 * (1 - changes / longest)


def edits(original: str, changed: str) -> list[Edit]:
    """A smallest list of edits that turns the words of one text into those of another."""
    old, new = words_of(original), words_of(changed)
    found, i, j = [], 0, 0
    for step in align(old, new):
        if step == "X":
            found.append(Edit("replace", i, new[j]))
        elif step == "I":
            found.append(Edit("delete", i, old[i]))
        elif step == "D":
            found.append(Edit("insert", i, new[j]))
        i += step != "D"
        j += step != "I"
    return found


def align(old: list[str], new: list[str]) -> str:
    """One letter per step, in edlib's words: = same, X replaced, I only in the old, D only in the new."""
    if not old or not new:  # edlib gives no path here
        return "I" * len(old) + "D" * len(new)
    if len({*old, *new}) > SYMBOLS:
        return align_slowly(old, new)
    path = library("edlib").align(old, new, mode="NW", task="path")["cigar"]
    return "".join(int(count) * step for count, step in STEP.findall(path))


def align_slowly(old: list[str], new: list[str]) -> str:
    """The same by the full table of distances, with edlib's choice among equal paths."""
    table = [list(range(len(new) + 1))]
    for i, word in enumerate(old, 1):
        row = [i]
        for j, (corner, above) in enumerate(pairwise(table[-1])):
            row.append(min(corner + (word != new[j]), above + 1, row[-1] + 1))
        table.append(row)
    return "".join(_back(table, old, new))[::-1]


def _back(table: list[list[int]], old: list[str], new: list[str]) -> Iterator[str]:
    i, j = len(old), len(new)
    while i or j:
        if i and table[i][j] == table[i - 1][j] + 1:
            step = "I"
        elif j and table[i][j] == table[i][j - 1] + 1:
            step = "D"
        else:
            step = "=" if old[i - 1] == new[j - 1] else "X"
        i -= step != "D"
        j -= step != "I"
        yield step


def _f1(made: Counter[Edit], wanted: Counter[Edit]) -> float:
    if not made and not wanted:
        return 100.0
    return 100 * 2 * (made & wanted).total() / (made.total() + wanted.total())
