"""Metrics: pure functions of texts and their references."""

from cold.evaluation.metrics.bertscore import BertScore, Encoder, bertscore, load_encoder
from cold.evaluation.metrics.bleu import bleu, bleu_of_rows, self_bleu
from cold.evaluation.metrics.bootstrap import (
    Estimate,
    Paired,
    bootstrap_corpus,
    bootstrap_mean,
    compare,
    compare_corpus,
)
from cold.evaluation.metrics.cider import Cider, cider
from cold.evaluation.metrics.coverage import Coverage, MeanCoverage, coverage, mean_coverage
from cold.evaluation.metrics.edits import edit_overlap, edit_similarity, edits
from cold.evaluation.metrics.repetition import distinct_n, has_repeated_ngram, length
from cold.evaluation.metrics.rouge import rouge_l
from cold.optional import MissingLibraryError
from cold.text.inflections import inflections

__all__ = [
    "BertScore",
    "Cider",
    "Coverage",
    "Encoder",
    "Estimate",
    "MeanCoverage",
    "MissingLibraryError",
    "Paired",
    "bertscore",
    "bleu",
    "bleu_of_rows",
    "bootstrap_corpus",
    "bootstrap_mean",
    "cider",
    "compare",
    "compare_corpus",
    "coverage",
    "distinct_n",
    "edit_overlap",
    "edit_similarity",
    "edits",
    "has_repeated_ngram",
    "inflections",
    "length",
    "load_encoder",
    "mean_coverage",
    "rouge_l",
    "self_bleu",
]
