"""A beam that writes with the LM and follows the soft sequence: log p_LM(v) + trust * log softmax(y~_t)(v)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from cold.lm.context import starts_line
from cold.lm.model import LanguageModel
from cold.text import sentences
from cold.text.complete import repeats
from cold.text.problems import Problems
from cold.text.reading import read
from cold.text.wanted import Standing, Wanted
from cold.text.words import met, words_of

TERMINATORS = (".", "!", "?")


class Hypothesis(NamedTuple):
    ids: tuple[int, ...] = ()
    text: str = ""
    score: float = 0.0
    standing: Standing = Standing()  # of the required words


@dataclass(frozen=True)
class Beam:
    """Whole sentences, one per row; hypotheses compete only with those that cover as much of the required words.

    `width` hypotheses a row are shared by the banks; each offers the LM's `top` tokens and the next token of every
    required word. `floor` is the least that the soft sequence can say of a token, so that it advises but never
    forbids; `blur` lets a token it planned for one position also count at the next ones. The best mean score wins among
    sentences of `least` words and more. Where a text follows, the best `finalists` of every length are read once more,
    without the soft sequence, and the one wins whose own tokens and those that follow are likeliest, each in the mean:
    otherwise the longer of both would decide alone. A word of several forms is required in any of them; words that are
    ordered count in their order only; a word to be avoided is never written. No `no_repeat` tokens in a row come
    twice, and no `echo` tokens in a row are copied from the left text (a list of words is no sentence).
    """

    width: int = 12
    top: int = 12
    trust: float = 0.5
    blur: float = 0.25
    floor: float = -8.0
    max_length: int = 28
    no_repeat: int = 3
    finalists: int = 2
    least: int = 3
    echo: int = 4

    @torch.no_grad()
    def __call__(self, problems: Problems, y: Tensor) -> list[list[int]]:
        rows, examples = y.shape[0], problems.story.examples
        samples = rows // examples
        writer = _Writer(self, problems)
        prefix = problems.story.prefix.select([row // samples for row in range(rows)])
        beams = {row: [Hypothesis()] for row in range(rows)}
        finished: list[list[Hypothesis]] = [[] for _ in range(rows)]
        advice = self._advice(y)
        for t in range(self.max_length):
            assert prefix.logits is not None
            if prefix.mask.shape[1] >= problems.lm.window:
                break
            scores = prefix.logits.masked_fill(writer.never, -float("inf")).log_softmax(-1)
            if t < y.shape[1]:
                scores = scores + advice[[row for row, beam in beams.items() for _ in beam], t]
            going = [(row // samples, h) for row, beam in beams.items() for h in beam]
            pieces = [writer.wanted[example].pieces(h.standing, h.ids) for example, h in going]
            offers = writer.offers(going, pieces, scores)
            parents: list[int] = []
            start, grown = 0, {}
            for row, beam in beams.items():
                own = slice(start, start + len(beam))
                survivors, done = writer.grow(row // samples, beam, pieces[own], offers[own])
                finished[row] += done
                if survivors and not writer.satisfied(row // samples, finished[row], survivors):
                    grown[row] = [hypothesis for _, hypothesis in survivors]
                    parents += [start + parent for parent, _ in survivors]
                start += len(beam)
            leftover = {row: beam for row, beam in beams.items() if row not in grown and not finished[row]}
            for row, beam in leftover.items():  # nothing could be added and nothing ended: keep what there is
                finished[row] = writer.spare(row // samples, beam)
            beams = grown
            if not beams:
                break
            last = torch.tensor([h.ids[-1] for beam in beams.values() for h in beam], device=y.device)
            prefix = prefix.select(parents).append_ids(last)
        for row, beam in beams.items():
            finished[row] = finished[row] or writer.spare(row // samples, beam)
        return [list(hypothesis.ids) for hypothesis in self._choose(problems, finished)]

    def _choose(self, problems: Problems, finished: list[list[Hypothesis]]) -> list[Hypothesis]:
        """The best sentence of each row: by merit, or, with a text on the right, as the LM reads both."""
        rights = problems.story.right_ids
        if not any(rights):
            return [max(found, key=self._merit) for found in finished]
        samples = len(finished) // len(rights)
        flat = [(row, h) for row, found in enumerate(finished) for h in self._finalists(found)]
        seen = read(problems.story, [row // samples for row, _ in flat], [h.ids for _, h in flat])
        best: dict[int, tuple[float, Hypothesis]] = {}
        for (row, hypothesis), reading in zip(flat, seen, strict=True):
            best[row] = max(best.get(row, (reading.both, hypothesis)), (reading.both, hypothesis))
        return [best[row][1] for row in range(len(finished))]

    def _finalists(self, found: list[Hypothesis]) -> list[Hypothesis]:
        """The best of every length; only those that are as much of a sentence with all words as the very best."""
        ranked = sorted(found, key=self._merit, reverse=True)
        alike = [h for h in ranked if self._merit(h)[:-1] == self._merit(ranked[0])[:-1]]
        lengths: dict[int, list[Hypothesis]] = {}
        for hypothesis in alike:
            lengths.setdefault(len(hypothesis.ids), []).append(hypothesis)
        return [hypothesis for those in lengths.values() for hypothesis in those[: self.finalists]]

    def _merit(self, hypothesis: Hypothesis) -> tuple[int, bool, bool, float]:
        """More words first, then a sound sentence, not too short, then the mean score per token."""
        sound, words = _look(hypothesis.text)
        mean = hypothesis.score / max(len(hypothesis.ids), 1)
        return len(hypothesis.standing.found), sound, words >= self.least, mean

    def _advice(self, y: Tensor) -> Tensor:
        """trust * log of the soft sequence's distributions, blurred over neighbouring positions."""
        probs = y.softmax(-1)
        near = torch.zeros_like(probs)
        near[:, 1:] += probs[:, :-1]
        near[:, :-1] += probs[:, 1:]
        return self.trust * ((probs + self.blur * near) / (1 + 2 * self.blur)).log().clamp(min=self.floor)


class _Writer:
    """What all rows share while they are written: the LM's strings, what is never written, the words required."""

    def __init__(self, beam: Beam, problems: Problems) -> None:
        lm = problems.lm
        self.beam, self.strings = beam, lm.token_strings
        self.never = lm.banned | unwritable(lm)
        self.stop = lm.encode("a.")[-1]
        self.ends = [_ends(text) for text in lm.token_strings]
        self.every_length = any(problems.story.right_ids)
        lefts = {tuple(left): Copied(left, beam.echo) for left in problems.story.left_ids}
        self.copied = [lefts[tuple(left)] for left in problems.story.left_ids]
        self.wanted = [Wanted(lm, example.words, example.ordered) for example in problems.examples]
        self.avoided = [example.avoid for example in problems.examples]
        cache = {left: openers(lm, left) for left in set(problems.story.left_texts)}
        self.openers = [cache[left] for left in problems.story.left_texts]

    def offers(
        self, beams: Sequence[tuple[int, Hypothesis]], pieces: Sequence[dict[int, int]], scores: Tensor
    ) -> list[dict[int, float]]:
        """What may follow each hypothesis: the best tokens, and the next ones of its words or the full stop."""
        if not beams[0][1].ids:
            opening = torch.stack(self.openers)[[example for example, _ in beams]]
            scores = scores.masked_fill(~opening, -float("inf"))
        top = scores.topk(min(self.beam.top, scores.shape[-1]), dim=-1)
        asked_for = [list(found) or [self.stop] for found in pieces]
        most = max(map(len, asked_for))
        index = torch.tensor([row + row[:1] * (most - len(row)) for row in asked_for], device=scores.device)
        asked = scores.gather(-1, index).tolist()
        best = zip(top.indices.tolist(), top.values.tolist(), strict=True)
        return [
            dict(zip(*found, strict=True)) | dict(zip(row, values, strict=False))
            for found, row, values in zip(best, asked_for, asked, strict=True)
        ]

    def grow(
        self,
        example: int,
        beam: Sequence[Hypothesis],
        pieces: Sequence[dict[int, int]],
        offered: Sequence[dict[int, float]],
    ) -> tuple[list[tuple[int, Hypothesis]], list[Hypothesis]]:
        """The best continuations of one row, with the index of their parent, and the sentences that ended."""
        wanted, avoids = self.wanted[example], bool(self.avoided[example])
        offered_all = []
        for parent, (old, offers) in enumerate(zip(beam, offered, strict=True)):
            for token in [*repeats(old.ids, self.beam.no_repeat), *self.copied[example].by(old.ids)]:
                offers.pop(token, None)
            offered_all += [(old.score + value, parent, token) for token, value in offers.items()]
        offered_all.sort(reverse=True)
        share = max(2, self.beam.width // (len(wanted.words) + 1))
        banks: dict[int, list[tuple[int, Hypothesis]]] = {}
        done: list[Hypothesis] = []
        for score, parent, token in offered_all:
            if score == -float("inf"):
                break
            old, ends = beam[parent], self.ends[token]
            if not ends and len(banks.get(pieces[parent].get(token, old.standing.whole), ())) >= share:
                continue  # no place is left where it would go: most tokens are not even looked at
            text = old.text + (added := self.strings[token])
            if avoids and self._slips(example, old.text, text):
                continue
            ids = (*old.ids, token)
            new = Hypothesis(ids, text, score, wanted.after(old.standing, ids, text, added))
            if ends and sentences.is_complete(text):
                done += [new] if len(words_of(text)) > 2 else []
            elif len(bank := banks.setdefault(new.standing.covered, [])) < share:
                bank.append((parent, new))
        return [entry for bank in banks.values() for entry in bank], done

    def satisfied(self, example: int, done: list[Hypothesis], going: list[tuple[int, Hypothesis]]) -> bool:
        """No hypothesis still in the beam can be expected to beat the best whole sentence with all words."""
        if self.every_length or len(done) < self.beam.width:
            return False
        whole = [h for h in done if len(h.standing.found) == len(self.wanted[example].words)]
        if len(whole) < self.beam.width:
            return False
        best = max(map(self.beam._merit, whole))
        return all(self.beam._merit(h) < best for _, h in going)

    def spare(self, example: int, beam: Sequence[Hypothesis]) -> list[Hypothesis]:
        """Texts without an end, cut before a word to be avoided that more letters would have made another."""
        spared = []
        for hypothesis in beam:
            ids, text = hypothesis.ids, hypothesis.text
            while met(text, self.avoided[example]):
                ids, text = ids[:-1], "".join(self.strings[token] for token in ids[:-1])
            spared.append(Hypothesis(ids, text, hypothesis.score, self.wanted[example].of(ids, text)))
        return spared

    def _slips(self, example: int, before: str, text: str) -> bool:
        """Whether a word to be avoided stands there for good: no letter can make another of it any more."""
        avoided, word_over = self.avoided[example], not text[len(before) :][:1].isalnum()
        return bool((word_over and met(before, avoided)) or (_ends(text) and met(text, avoided)))


@lru_cache(maxsize=1 << 16)
def _look(text: str) -> tuple[bool, int]:
    """Whether it neither loops nor runs on, and how many words it has."""
    return not (sentences.has_loop(text) or sentences.runs_on(text)), len(words_of(text))


def _ends(text: str) -> bool:
    return text.rstrip("\"'”’)").endswith(TERMINATORS)


class Copied:
    """Which tokens would copy `size` tokens in a row from a left text, or from where it meets the text that follows."""

    def __init__(self, left: Sequence[int], size: int) -> None:
        before = max(size - 1, 0)
        self.size, self.end = size, tuple(left[max(len(left) - before, 0) :])
        self.follows: dict[tuple[int, ...], list[int]] = {}
        for at in range(before, len(left)):
            self.follows.setdefault(tuple(left[at - before : at]), []).append(left[at])

    def by(self, ids: tuple[int, ...]) -> list[int]:
        if not 0 < self.size <= len(ids) + 1:
            return []
        return self.follows.get(ids[len(ids) - self.size + 1 :], []) + repeats((*self.end, *ids), self.size)


def openers(lm: LanguageModel, left: str) -> Tensor:
    """Tokens that open a sentence: a capital letter, behind a space unless a line starts there.

    At the start of a document both forms will do, since SentencePiece writes the space there too.
    """
    spaces = {True, False} if not left.strip() else {not starts_line(left)}
    fit = [text.startswith(" ") in spaces and text.strip()[:1].isupper() for text in lm.token_strings]
    return torch.tensor(fit, device=lm.device)


def unwritable(lm: LanguageModel) -> Tensor:
    """Tokens with a newline, a control character or half a character: never part of a clean sentence."""
    odd = [not text or not text.isprintable() or "\ufffd" in text for text in lm.token_strings]
    return torch.tensor(odd, device=lm.device)
