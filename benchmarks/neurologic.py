"""NeuroLogic with keys and values that follow its beams, and without: seconds an example, in one run.

    python -m benchmarks.neurologic --examples 2

The examples are the lexical ones that come with the package, with the left text of the preset. Both ways are the same
search, all beams of all examples in one pass; without the cache every pass reads left text and hypothesis anew.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from itertools import islice
from typing import Any

from cold.baselines.neurologic import NeuroLogic
from cold.evaluation.datasets import Item, read, sample_file
from cold.lm import LanguageModel, load
from cold.recipes import build, preset
from cold.tasks.solve import seeds
from cold.text.words import met


def measure(writer: NeuroLogic, lm: LanguageModel, items: list[Item], name: str) -> tuple[float, list[str]]:
    """Seconds an example, and its best text."""
    recipe = preset("lexical", name).with_(samples=1)
    job = build(recipe, lm, None, [item.example for item in items])
    _ = job.problems.story.prefix, lm.token_strings  # read before the clock runs: both ways need them
    begun = time.perf_counter()
    texts = writer(job.problems, None, seeds(recipe, job))
    return (time.perf_counter() - begun) / len(items), texts


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=2)
    parser.add_argument("--width", type=int, default=20)
    parser.add_argument("--look-ahead", type=int, default=0, help="tokens; above 0 it is A*esque")
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--model", default="smollm2")
    args = parser.parse_args(argv)
    lm = load(args.model)
    items = [item for item in islice(read("lexical", sample_file("lexical")), args.examples) if isinstance(item, Item)]
    writer = NeuroLogic(width=args.width, look_ahead=args.look_ahead)
    cached, texts = measure(writer, lm, items, args.preset)
    for item, text in zip(items, texts, strict=True):
        print(f"{len(met(text, item.example.words))}/{len(item.example.words)}  {text}")
    afresh, again = measure(replace(writer, cache=False), lm, items, args.preset)
    same = sum(one == other for one, other in zip(texts, again, strict=True))
    print(f"{lm.name} on {lm.device}, beam {args.width}, {len(items)} examples, {same} with the same text both ways")
    print(f"with the cache {cached:.1f} s an example, without {afresh:.1f} s: {afresh / cached:.1f} x")
    return {"cached": cached, "afresh": afresh, "ratio": afresh / cached, "texts": texts}


if __name__ == "__main__":
    main()
