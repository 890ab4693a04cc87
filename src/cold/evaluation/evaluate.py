"""What a run is worth: the metrics of its task with intervals, and how two runs differ."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cold.errors import ColdError
from cold.evaluation import metrics
from cold.evaluation.metrics import Encoder, Estimate, Paired
from cold.evaluation.runs import read_run
from cold.lm.model import LanguageModel
from cold.text.select import perplexity


@dataclass
class Scores:
    """One run: a score per example for each metric, and the metrics that only a whole corpus has."""

    path: Path
    header: dict[str, Any]
    ids: list[str]
    texts: list[tuple[str, list[str]]]  # with their references
    each: dict[str, list[float]] = field(default_factory=dict)
    whole: dict[str, Estimate] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def estimates(self) -> dict[str, Estimate]:
        """Every metric with its 95 % bootstrap interval; where an example has none, over the others."""
        means = {name: metrics.bootstrap_mean(_real(values)) for name, values in self.each.items() if _real(values)}
        return self.whole | means


def evaluate(path: Path, encoder: Encoder | None = None, judge: LanguageModel | None = None) -> Scores:
    """All that can be said of a run; what needs references, an encoder or a second LM is left out without them."""
    header, lines = read_run(path)
    if not lines:
        raise ColdError(f"{path} has no finished example yet: let `cold run` go on first")
    task, texts = header["task"], [line["text"] for line in lines]
    references = [line["references"] for line in lines]
    found = Scores(path, header, [line["id"] for line in lines], list(zip(texts, references, strict=True)))
    if all(references):
        _against_references(found, task, texts, references, encoder)
    else:
        count = sum(not some for some in references)
        found.notes.append(f"{count} examples have no references: no BLEU, ROUGE, CIDEr, BERTScore")
    with _if_installed(found):
        if task == "counterfactual":
            _edits(found, lines)
        if task == "lexical":
            _coverage(found, lines)
    _shape(found, lines)
    if judge is not None:
        found.each["perplexity"] = [x if math.isfinite(x) else math.nan for x in _perplexities(judge, texts)]
        found.notes.append(_about_judge(judge, header))
    return found


def compare(first: Scores, second: Scores) -> dict[str, Paired]:
    """Second - first for every metric that both have, over the ids they share."""
    shared = set(first.ids) & set(second.ids)
    if not shared:
        raise ColdError(f"{first.path} and {second.path} have no example in common: compare runs over the same file")
    found = {}
    if "BLEU-4" in first.whole and "BLEU-4" in second.whole:
        texts = [dict(zip(s.ids, s.texts, strict=True))[key] for s in (second, first) for key in sorted(shared)]
        metric = metrics.bleu_of_rows([text for text, _ in texts], [some for _, some in texts])
        found["BLEU-4"] = metrics.compare_corpus(metric, len(shared))
    for name in first.each.keys() & second.each.keys():
        one, other = (dict(zip(s.ids, s.each[name], strict=True)) for s in (first, second))
        keys = [key for key in shared if not math.isnan(one[key]) and not math.isnan(other[key])]
        if keys:
            found[name] = metrics.compare({key: other[key] for key in keys}, {key: one[key] for key in keys})
    return {name: found[name] for name in (*first.whole, *first.each) if name in found}


def _against_references(
    found: Scores, task: str, texts: list[str], references: list[list[str]], encoder: Encoder | None
) -> None:
    if task != "counterfactual":
        with _if_installed(found):
            found.whole["BLEU-4"] = metrics.bootstrap_corpus(metrics.bleu_of_rows(texts, references), len(texts))
        pairs = zip(texts, references, strict=True)
        found.each["ROUGE-L"] = [metrics.rouge_l(text, some) for text, some in pairs]
        found.each["CIDEr"] = [100 * score for score in metrics.cider(texts, references).scores]  # as papers print it
    if encoder is None:
        found.notes.append("no encoder: no BERTScore")
        return
    found.each["BERTScore"] = [score.f1 for score in metrics.bertscore(texts, references, encoder)]
    found.notes.append(f"BERTScore: {encoder.name}, layer {encoder.layer}, no rescaling")


@contextmanager
def _if_installed(found: Scores) -> Iterator[None]:
    """A metric whose library is missing is left out, with a note."""
    try:
        yield
    except metrics.MissingLibraryError as error:
        if str(error) not in found.notes:
            found.notes.append(str(error))


def _edits(found: Scores, lines: Sequence[dict[str, Any]]) -> None:
    """Both readings of the paper's minimal edit."""
    endings = [line["inputs"]["ending"] for line in lines]
    if all(line["references"] for line in lines):
        rows = zip(endings, lines, strict=True)
        found.each["edit overlap"] = [metrics.edit_overlap(end, ln["text"], ln["references"]) for end, ln in rows]
    rows = zip(endings, lines, strict=True)
    found.each["edit similarity"] = [metrics.edit_similarity(line["text"], ending) for ending, line in rows]


def _coverage(found: Scores, lines: Sequence[dict[str, Any]]) -> None:
    each = [metrics.coverage(line["text"], line["inputs"]["words"]) for line in lines]
    found.each["coverage %"] = [one.exact_percent for one in each]
    found.each["coverage % (inflected)"] = [one.inflected_percent for one in each]
    found.each["words found"] = [float(one.exact) for one in each]
    found.each["occurrences"] = [float(one.exact_times) for one in each]
    found.each["words asked"] = [float(one.size) for one in each]


def _shape(found: Scores, lines: Sequence[dict[str, Any]]) -> None:
    """What the paper lacks: repetition, length, and how different the samples of an example are."""
    found.each["repeated 3-gram %"] = [100.0 * metrics.has_repeated_ngram(line["text"]) for line in lines]
    found.each["words"] = [float(metrics.length(line["text"])) for line in lines]
    samples = [[sample["text"] for sample in line["samples"]] for line in lines]
    if max(map(len, samples)) > 1:
        found.each["distinct-2 of samples"] = [100 * metrics.distinct_n(texts, 2) for texts in samples]
        with _if_installed(found):
            found.each["self-BLEU of samples"] = [metrics.self_bleu(texts) for texts in samples]
    energies = [line["samples"][line["selected"]]["energy"] for line in lines]
    found.each["energy"] = [math.nan if energy is None else energy for energy in energies]
    found.each["seconds a sample"] = [line["seconds"] / len(line["samples"]) for line in lines]


def _perplexities(judge: LanguageModel, texts: Sequence[str], together: int = 64) -> list[float]:
    parts = [texts[first : first + together] for first in range(0, len(texts), together)]
    return [value for part in parts for value in perplexity(judge, part)]


def _about_judge(judge: LanguageModel, header: dict[str, Any]) -> str:
    writer = header["model"]
    if judge.fingerprint == writer["hash"]:
        return f"perplexity: under {judge.name}, the model that wrote the texts"
    if judge.name == "mini" and writer["name"] == "smollm2":
        return "perplexity: under mini, which has smollm2's vocabulary and has learned from texts that smollm2 wrote"
    shares = "the size of the vocabulary" if judge.vocab == writer["vocabulary"] else "no vocabulary"
    return f"perplexity: under {judge.name}, which shares {shares} with {writer['name']}"


def _real(values: Sequence[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def as_table(runs: Sequence[Scores]) -> str:
    """Metrics down, runs across; values with their intervals."""
    estimates = [scores.estimates() for scores in runs]
    names = list(dict.fromkeys(name for found in estimates for name in found))
    wide = max(24, *(len(scores.path.stem) + 2 for scores in runs))
    lines = [" " * 24 + "".join(f"{scores.path.stem:>{wide}}" for scores in runs)]
    lines.append(f"{'examples':24}" + "".join(f"{len(scores.ids):>{wide}}" for scores in runs))
    for name in names:
        cells = [f"{_cell(found[name]) if name in found else '-':>{wide}}" for found in estimates]
        lines.append(f"{name:24}" + "".join(cells))
    return "\n".join(lines)


def as_comparison(first: Scores, second: Scores) -> str:
    lines = [f"{second.path.stem} - {first.path.stem}, paired over examples (sign-flip test)"]
    for name, pair in compare(first, second).items():
        lines.append(f"{name:24}{pair.difference:+9.2f}  [{pair.low:+.2f}, {pair.high:+.2f}]  p = {pair.p:.4f}")
    return "\n".join(lines)


def _cell(estimate: Estimate) -> str:
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"
