"""From an example's words to clauses over tokens, and from the texts a search found to one per row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cold.baselines.hypotheses import Beams, Ends, Script, Task
from cold.baselines.search import Search
from cold.lm.context import inner_ids
from cold.lm.model import LanguageModel
from cold.lm.prefix import Prefix
from cold.text import sentences
from cold.text.beam import TERMINATORS, openers, unwritable
from cold.text.clauses import START, Clauses, Literal, Phrase
from cold.text.problems import Problems
from cold.text.words import forms, word_ids

TAIL = 16  # tokens: no word has so many


def script_of(lm: LanguageModel) -> Script:
    """One sentence without odd characters; behind a phrase no letter follows, so that it is a whole word."""
    glue = torch.tensor([text[:1].isalnum() or text[:1] in ("'", "’", "-") for text in lm.token_strings])
    stops = tuple(dict.fromkeys(lm.encode("a" + mark)[-1] for mark in TERMINATORS))
    return Script(lm.banned | unwritable(lm), glue.to(lm.device), stops, ends_of(lm), finals(lm))


def tasks_of(problems: Problems, banned: Sequence[str] = ()) -> list[Task]:
    """A clause for every word of an example, or every keyword where no word is required."""
    lefts = problems.story.left_texts
    opening = {left: _first(problems.lm, left) for left in set(lefts)}
    tasks = []
    for left, ids, example in zip(lefts, problems.story.left_ids, problems.examples, strict=True):
        words = dict.fromkeys(example.words or example.keywords)
        asked = [tuple(Literal(form) for form in phrases(problems.lm, left, word)) for word in words]
        barred = (*banned, *example.avoid)
        never = [(Literal(form, False),) for word in barred for form in phrases(problems.lm, left, word)]
        tasks.append(Task(Clauses((*asked, *never)), opening[left], tuple(ids)))
    return tasks


def phrases(lm: LanguageModel, left: str, word: str) -> list[Phrase]:
    """A word in ids, in each of its forms: behind a space anywhere; as the first word, with a capital or not."""
    return list(dict.fromkeys(phrase for form in forms(word) for phrase in _phrases(lm, left, form)))


def _phrases(lm: LanguageModel, left: str, word: str) -> list[Phrase]:
    inside = tuple(word_ids(lm, word))
    first = [word[:1].upper() + word[1:], word]
    opening = [ids for text in first for ids in (inner_ids(lm, left, text), word_ids(lm, text))]
    opening = [ids for ids in opening if tuple(ids) != inside]
    return [inside, *dict.fromkeys((START, *ids) for ids in opening)]


def write(search: Search, problems: Problems, rows: int, banned: Sequence[str] = ()) -> list[str]:
    """An example's rows are its best texts; the very best once more where there are too few."""
    samples = rows // problems.story.examples
    found = search(problems.story.prefix, tasks_of(problems, banned), samples)
    best = [[*texts, *[texts[0]] * (samples - len(texts))] for texts in found]
    return [sentences.clean(problems.lm.decode(text.ids)) for texts in best for text in texts]


@dataclass(frozen=True, eq=False)
class ReadAfresh:
    """Everything from the first token of the left text, as decoders without a cache do: for comparison only."""

    lefts: Sequence[Sequence[int]]

    def __call__(self, prefix: Prefix, beams: Beams) -> Prefix:
        return Prefix.of(prefix.lm, [[*self.lefts[n], *h.ids] for n, beam in beams.items() for h in beam])


def _first(lm: LanguageModel, left: str) -> Tensor:
    """Tokens that open a sentence; any, if the vocabulary has none behind a space (a very small one)."""
    found = openers(lm, left)
    return found if found.any() else torch.ones_like(found)


def finals(lm: LanguageModel, marks: tuple[str, ...] = TERMINATORS) -> Tensor:
    """Tokens that may end a sentence [vocab]."""
    found = [text.rstrip("\"'”’)]").endswith(marks) for text in lm.token_strings]
    return torch.tensor(found, device=lm.device)


def ends_of(lm: LanguageModel) -> Ends:
    """Whether a text is a whole sentence, which its last tokens tell: the last word may be an abbreviation."""
    final, strings = finals(lm).tolist(), lm.token_strings

    def ends(ids: tuple[int, ...]) -> bool:
        if not final[ids[-1]]:
            return False
        tail = "".join(strings[token] for token in ids[-TAIL:])
        return sentences.is_complete(lm.decode(ids) if "\ufffd" in tail else tail)

    return ends
