"""BLEU-4: geometric mean of n-gram precisions times a brevity penalty, as sacrebleu computes it, 0..100."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest

from cold.evaluation.metrics.given import check_corpus, library


def bleu(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Corpus BLEU-4; the number of references may differ from text to text."""
    check_corpus(hypotheses, references)
    columns = [list(column) for column in zip_longest(*references)]  # None where a text has fewer references
    # force: or it warns of texts that end in " ." as if they were tokenized
    return float(library("sacrebleu").metrics.BLEU(force=True).corpus_score(list(hypotheses), columns).score)


def self_bleu(samples: Sequence[str]) -> float:
    """Mean sentence BLEU-4 of each sample against the others: high means alike. NaN for fewer than two."""
    if len(samples) < 2:
        return math.nan
    metric = library("sacrebleu").metrics.BLEU(effective_order=True)
    others = ([*samples[:i], *samples[i + 1 :]] for i in range(len(samples)))
    scores = [metric.sentence_score(text, rest).score for text, rest in zip(samples, others, strict=True)]
    return math.fsum(scores) / len(scores)
