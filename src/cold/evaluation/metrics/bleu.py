"""BLEU-4: geometric mean of n-gram precisions times a brevity penalty, as sacrebleu computes it, 0..100."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import zip_longest

import numpy as np

from cold.evaluation.metrics.bootstrap import Indices
from cold.evaluation.metrics.given import check_corpus
from cold.optional import library


def bleu(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Corpus BLEU-4; the number of references may differ from text to text."""
    check_corpus(hypotheses, references)
    columns = [list(column) for column in zip_longest(*references)]  # None where a text has fewer references
    # force: or it warns of texts that end in " ." as if they were tokenized
    return float(library("sacrebleu").metrics.BLEU(force=True).corpus_score(list(hypotheses), columns).score)


def bleu_of_rows(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> Callable[[Sequence[int] | Indices], float]:
    """Corpus BLEU-4 as a function of which texts are in the corpus; their n-grams are counted once."""
    check_corpus(hypotheses, references)
    metric = library("sacrebleu").metrics.BLEU(force=True)
    each = [
        metric.corpus_score([text], [[one] for one in some]) for text, some in zip(hypotheses, references, strict=True)
    ]
    counts = np.array([[*score.counts, *score.totals, score.sys_len, score.ref_len] for score in each])

    def score(rows: Sequence[int] | Indices) -> float:
        *ngrams, written, wanted = counts[np.asarray(rows)].sum(0).tolist()
        return float(metric.compute_bleu(ngrams[:4], ngrams[4:], written, wanted, smooth_method="exp").score)

    return score


def self_bleu(samples: Sequence[str]) -> float:
    """Mean sentence BLEU-4 of each sample against the others: high means alike. NaN for fewer than two."""
    if len(samples) < 2:
        return math.nan
    metric = library("sacrebleu").metrics.BLEU(effective_order=True)
    others = ([*samples[:i], *samples[i + 1 :]] for i in range(len(samples)))
    scores = [metric.sentence_score(text, rest).score for text, rest in zip(samples, others, strict=True)]
    return math.fsum(scores) / len(scores)
