"""Sample-and-select: the rules that pick one of an example's samples (section 3.4 and the appendix)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from cold.lm.model import LanguageModel
from cold.lm.prefix import Prefix
from cold.lm.score import log_likelihood
from cold.text import sentences
from cold.text.problems import Example
from cold.text.words import common, met, words_of


class Ranking(NamedTuple):
    """Samples of one example, best first, and what they were judged by."""

    order: list[int]
    scores: list[dict[str, float]]


# The LM, the examples, the texts and energies of rows = examples x samples -> a ranking for each example.
Rule = Callable[[LanguageModel, Sequence[Example], Sequence[str], Sequence[float]], list[Ranking]]
T = TypeVar("T")


def perplexity(lm: LanguageModel, texts: Sequence[str]) -> list[float]:
    """exp of the mean negative log-probability per token of each text, read from the document separator on."""
    once = list(dict.fromkeys(map(sentences.clean, texts)))  # samples often agree
    ids = [lm.encode(text)[: lm.window - 1] for text in once]
    total = log_likelihood(Prefix.of(lm, [[lm.separator]] * len(ids)), ids).tolist()
    found = {
        text: math.exp(min(-score / len(row), 700.0)) if row else math.inf
        for text, score, row in zip(once, total, ids, strict=True)
    }
    return [found[sentences.clean(text)] for text in texts]


def abductive(
    lm: LanguageModel, examples: Sequence[Example], texts: Sequence[str], energies: Sequence[float]
) -> list[Ranking]:
    """The paper's rule: the 5 best by perplexity of left + y + right, then the best of y + right."""
    told = _rows(examples, texts)
    whole = [f"{example.left} {text} {example.right}" for example, text in told]
    late = [f"{text} {example.right}" for example, text in told]
    both = perplexity(lm, whole + late)  # in one reading
    halves = (_each(examples, half) for half in (both[: len(texts)], both[len(texts) :]))
    rankings = []
    for joint, behind in zip(*halves, strict=True):
        by_joint = _lowest(joint)
        order = sorted(by_joint[:5], key=behind.__getitem__) + by_joint[5:]
        scores = zip(joint, behind, strict=True)
        rankings.append(Ranking(order, [{"perplexity_left_y_right": j, "perplexity_y_right": b} for j, b in scores]))
    return rankings


def counterfactual(
    lm: LanguageModel, examples: Sequence[Example], texts: Sequence[str], energies: Sequence[float]
) -> list[Ranking]:
    """The paper's rule: perplexity of the new context + y."""
    found = perplexity(lm, [f"{example.left} {text}" for example, text in _rows(examples, texts)])
    return [Ranking(_lowest(joint), [{"perplexity_left_y": p} for p in joint]) for joint in _each(examples, found)]


def lexical(
    lm: LanguageModel, examples: Sequence[Example], texts: Sequence[str], energies: Sequence[float]
) -> list[Ranking]:
    """Our rule (the paper gives none): coverage of the words, then perplexity of y."""
    covered = [len(example.found(text)) / max(len(example.words), 1) for example, text in _rows(examples, texts)]
    rankings = []
    for shares, alone in zip(_each(examples, covered), _each(examples, perplexity(lm, texts)), strict=True):
        order = _lowest([(-share, value) for share, value in zip(shares, alone, strict=True)])
        scores = zip(shares, alone, strict=True)
        rankings.append(Ranking(order, [{"coverage": c, "perplexity": p} for c, p in scores]))
    return rankings


def by_energy(
    lm: LanguageModel, examples: Sequence[Example], texts: Sequence[str], energies: Sequence[float]
) -> list[Ranking]:
    """The lowest energy of the final text; a text too short for some term has none and comes last."""
    return [
        Ranking(_lowest([(math.isnan(e), e) for e in those]), [{"judged": e} for e in those])
        for those in _each(examples, energies)
    ]


def weighed(agreement: float = 0.0, perplexity_alone: float = 0.0) -> Rule:
    """The energy, less `agreement` times what a text has in common with the other samples, plus so much log perplexity.

    What several plans led to is likelier right than what one did: two texts agree by 2 c / (n + m), c being the words
    of their longest common subsequence. The perplexity is that of the text alone, without the left text and the style.
    """

    def ranked(
        lm: LanguageModel, examples: Sequence[Example], texts: Sequence[str], energies: Sequence[float]
    ) -> list[Ranking]:
        scores = [{"judged": energy} for energy in energies]
        judged = list(energies)
        if agreement:
            alike = [share for those in _each(examples, texts) for share in _agreements(those)]
            for i, share in enumerate(alike):
                scores[i]["agreement"] = share
                judged[i] -= agreement * share
        if perplexity_alone:
            for i, found in enumerate(perplexity(lm, texts)):
                scores[i]["perplexity"] = found
                judged[i] += perplexity_alone * math.log(found)
        orders = [ranking.order for ranking in by_energy(lm, examples, texts, judged)]
        return [Ranking(order, list(those)) for order, those in zip(orders, _each(examples, scores), strict=True)]

    return ranked


def careful(rule: Rule) -> Rule:
    """`rule` among texts that read as one sentence: nothing to avoid, no loop, all words, an end, not two in one."""

    def ranked(
        lm: LanguageModel, examples: Sequence[Example], texts: Sequence[str], energies: Sequence[float]
    ) -> list[Ranking]:
        marks = [_marks(example, text) for example, text in _rows(examples, texts)]
        weighed = ("words_to_avoid", "loop", "words_missing", "unfinished", "runs_on")
        rankings = []
        for (order, scores), those in zip(rule(lm, examples, texts, energies), _each(examples, marks), strict=True):
            by_marks = sorted(order, key=lambda i: [those[i][mark] for mark in weighed])
            rankings.append(Ranking(by_marks, [{**s, **m} for s, m in zip(scores, those, strict=True)]))
        return rankings

    return ranked


def _marks(example: Example, text: str) -> dict[str, float]:
    """What is wrong with a text at first sight."""
    return {
        "words_missing": float(len(example.words) - len(example.found(text))),
        "words_to_avoid": float(len(met(text, example.avoid))),
        "loop": float(sentences.has_loop(text)),
        "unfinished": float(not sentences.is_complete(text) or len(words_of(text)) < 3),
        "runs_on": float(sentences.runs_on(text)),
    }


def _agreements(texts: Sequence[str]) -> list[float]:
    """What each has in common with the others, in the mean."""
    words = [words_of(text) for text in texts]
    return [_mean([_alike(one, other) for k, other in enumerate(words) if k != i]) for i, one in enumerate(words)]


def _each(examples: Sequence[Example], rows: Sequence[T]) -> list[Sequence[T]]:
    """Rows = examples x samples, an example at a time."""
    samples = len(rows) // len(examples)
    return [rows[start : start + samples] for start in range(0, len(rows), samples)]


def _rows(examples: Sequence[Example], texts: Sequence[str]) -> list[tuple[Example, str]]:
    """Each text with its example."""
    parts = zip(examples, _each(examples, texts), strict=True)
    return [(example, text) for example, those in parts for text in those]


def _lowest(values: Sequence[Any]) -> list[int]:
    return sorted(range(len(values)), key=values.__getitem__)


def _alike(one: Sequence[str], other: Sequence[str]) -> float:
    return 2 * common(one, other) / max(len(one) + len(other), 1)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(len(values), 1)
