"""Quality against seconds an example: each run file with 1, 2, 4 ... of its samples to choose from.

    python -m benchmarks.compute runs/*.jsonl --out compute.png

The first n samples are ranked anew by what the run file says of them, so a run of 16 samples gives the points of a run
of 8 as well; its seconds are taken as proportional to n. A search that finds its texts at once (NeuroLogic, constrained
beam) is one point. Quality is ROUGE-L, the best over the references, for any task.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cold.evaluation.metrics.rouge import rouge_l
from cold.text import select, sentences
from cold.text.problems import Example
from cold.text.words import met

AT_ONCE = ("neurologic", "neurologic-astar", "constrained-beam")


class Point(NamedTuple):
    method: str
    samples: int
    examples: int
    seconds: float  # an example
    quality: float
    whole: float  # % of texts with all words, one sentence, no loop


def choose(line: dict[str, Any], n: int, chosen: dict[str, Any]) -> str:
    """The text that the run's rule takes of the first n samples."""
    samples = line["samples"][:n]
    texts = [sample["text"] for sample in samples]
    if "agreement" not in chosen:  # a sample's place in the ranking does not depend on the others
        place = {k: rank for rank, k in enumerate(line["order"])}
        return str(texts[min(range(len(texts)), key=place.__getitem__)])
    energies = [_judged(sample["selection"], chosen.get("perplexity", 0.0)) for sample in samples]
    rule, example = select.careful(select.weighed(chosen["agreement"])), Example(words=_words(line))
    return texts[rule(None, [example], texts, energies)[0].order[0]]  # type: ignore[arg-type]


def _judged(seen: dict[str, float | None], weight: float) -> float:
    """What the rule weighs, but for the agreement with the others."""
    energy = math.nan if seen["judged"] is None else seen["judged"]
    return energy + weight * math.log(seen["perplexity"] or math.inf) if weight else energy


def _words(line: dict[str, Any]) -> tuple[str, ...]:
    return tuple(line["inputs"].get("words", ()))


def whole(text: str, words: Sequence[str]) -> bool:
    sound = sentences.is_complete(text) and not sentences.has_loop(text) and not sentences.runs_on(text)
    return sound and len(sentences.split(text)) == 1 and len(met(text, words)) == len(words)


def points(path: Path) -> list[Point]:
    with path.open(encoding="utf-8") as file:
        head, *lines = map(json.loads, file)
    name = head["preset"] if head["method"] == "cold" else head["method"]
    most = len(lines[0]["samples"])
    sizes = [most] if head["method"] in AT_ONCE else [n for n in (1, 2, 4, 8, 16, 32) if n <= most]
    found = []
    for n in sizes:
        texts = [choose(line, n, head["configuration"]["select"]) for line in lines]
        quality = statistics.mean(rouge_l(t, line["references"]) for t, line in zip(texts, lines, strict=True))
        sound = statistics.mean(whole(t, line["inputs"].get("words", ())) for t, line in zip(texts, lines, strict=True))
        seconds = statistics.mean(line["seconds"] for line in lines) * n / most
        found.append(Point(name, n, len(lines), seconds, quality, 100 * sound))
    return found


def draw(curves: Sequence[Sequence[Point]], out: Path) -> None:
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5))
    for curve in curves:
        axes.plot([p.seconds for p in curve], [p.quality for p in curve], marker="o", label=curve[0].method)
        for point in curve:
            axes.annotate(
                str(point.samples),
                (point.seconds, point.quality),
                fontsize=7,
                xytext=(3, 3),
                textcoords="offset points",
            )
    axes.set(xscale="log", xlabel="seconds an example", ylabel="ROUGE-L of the selected text")
    axes.legend()
    figure.tight_layout()
    figure.savefig(out, dpi=120)


def main(argv: list[str] | None = None) -> list[list[Point]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, help="a picture")
    options = parser.parse_args(argv)
    curves = [points(path) for path in options.runs]
    print("method              samples  examples  seconds  ROUGE-L  whole %")
    for point in (p for curve in curves for p in curve):
        print(
            f"{point.method:20}{point.samples:7}{point.examples:10}{point.seconds:9.2f}{point.quality:9.2f}{point.whole:9.1f}"
        )
    if options.out:
        draw(curves, options.out)
    return curves


if __name__ == "__main__":
    main()
