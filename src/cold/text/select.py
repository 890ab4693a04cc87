"""Sample-and-select: the rules that pick one of an example's samples (section 3.4 and the appendix)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

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


# The LM, the example, its samples' texts and their energies -> a ranking.
Rule = Callable[[LanguageModel, Example, Sequence[str], Sequence[float]], Ranking]


def perplexity(lm: LanguageModel, texts: Sequence[str]) -> list[float]:
    """exp of the mean negative log-probability per token of each text, read from the document separator on."""
    ids = [lm.encode(sentences.clean(text))[: lm.window - 1] for text in texts]
    total = log_likelihood(Prefix.of(lm, [[lm.separator]] * len(ids)), ids).tolist()
    return [math.exp(min(-score / len(row), 700.0)) if row else math.inf for score, row in zip(total, ids, strict=True)]


def abductive(lm: LanguageModel, example: Example, texts: Sequence[str], energies: Sequence[float]) -> Ranking:
    """The paper's rule: the 5 best by perplexity of left + y + right, then the best of y + right."""
    whole, late = ([f"{start}{text} {example.right}" for text in texts] for start in (f"{example.left} ", ""))
    both = perplexity(lm, whole + late)  # in one reading
    joint, behind = both[: len(texts)], both[len(texts) :]
    by_joint = sorted(range(len(texts)), key=joint.__getitem__)
    order = sorted(by_joint[:5], key=behind.__getitem__) + by_joint[5:]
    scores = zip(joint, behind, strict=True)
    return Ranking(order, [{"perplexity_left_y_right": j, "perplexity_y_right": b} for j, b in scores])


def counterfactual(lm: LanguageModel, example: Example, texts: Sequence[str], energies: Sequence[float]) -> Ranking:
    """The paper's rule: perplexity of the new context + y."""
    joint = perplexity(lm, [f"{example.left} {text}" for text in texts])
    return Ranking(sorted(range(len(texts)), key=joint.__getitem__), [{"perplexity_left_y": p} for p in joint])


def lexical(lm: LanguageModel, example: Example, texts: Sequence[str], energies: Sequence[float]) -> Ranking:
    """Our rule (the paper gives none): coverage of the words, then perplexity of y."""
    covered = [len(met(text, example.words)) / max(len(example.words), 1) for text in texts]
    alone = perplexity(lm, texts)
    order = sorted(range(len(texts)), key=lambda i: (-covered[i], alone[i]))
    return Ranking(order, [{"coverage": c, "perplexity": p} for c, p in zip(covered, alone, strict=True)])


def by_energy(lm: LanguageModel, example: Example, texts: Sequence[str], energies: Sequence[float]) -> Ranking:
    """The lowest energy of the final text; a text too short for some term has none and comes last."""
    order = sorted(range(len(texts)), key=lambda i: (math.isnan(energies[i]), energies[i]))
    return Ranking(order, [{"judged": e} for e in energies])


def weighed(agreement: float = 0.0, perplexity_alone: float = 0.0) -> Rule:
    """The energy, less `agreement` times what a text has in common with the other samples, plus so much log perplexity.

    What several plans led to is likelier right than what one did: two texts agree by 2 c / (n + m), c being the words
    of their longest common subsequence. The perplexity is that of the text alone, without the left text and the style.
    """

    def ranked(lm: LanguageModel, example: Example, texts: Sequence[str], energies: Sequence[float]) -> Ranking:
        scores = [{"judged": energy} for energy in energies]
        judged = list(energies)
        if agreement:
            words = [words_of(text) for text in texts]
            for i, one in enumerate(words):
                scores[i]["agreement"] = _mean([_alike(one, other) for k, other in enumerate(words) if k != i])
                judged[i] -= agreement * scores[i]["agreement"]
        if perplexity_alone:
            for i, found in enumerate(perplexity(lm, texts)):
                scores[i]["perplexity"] = found
                judged[i] += perplexity_alone * math.log(found)
        return Ranking(by_energy(lm, example, texts, judged).order, scores)

    return ranked


def _alike(one: Sequence[str], other: Sequence[str]) -> float:
    return 2 * common(one, other) / max(len(one) + len(other), 1)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(len(values), 1)


def careful(rule: Rule) -> Rule:
    """`rule` among texts that read as one sentence: nothing to avoid, no loop, all words, an end, not two in one."""

    def ranked(lm: LanguageModel, example: Example, texts: Sequence[str], energies: Sequence[float]) -> Ranking:
        order, scores = rule(lm, example, texts, energies)
        marks = [
            {
                "words_missing": float(len(example.words) - len(met(text, example.words))),
                "words_to_avoid": float(len(met(text, example.avoid))),
                "loop": float(sentences.has_loop(text)),
                "unfinished": float(not sentences.is_complete(text) or len(words_of(text)) < 3),
                "runs_on": float(sentences.runs_on(text)),
            }
            for text in texts
        ]
        weighed = ("words_to_avoid", "loop", "words_missing", "unfinished", "runs_on")
        order = sorted(order, key=lambda i: [marks[i][mark] for mark in weighed])
        return Ranking(order, [{**s, **m} for s, m in zip(scores, marks, strict=True)])

    return ranked
