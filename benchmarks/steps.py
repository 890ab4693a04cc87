"""Steps against quality: the released schedule and ours, on the same energy, at several numbers of steps.

    python -m benchmarks.steps abductive dev.json --examples 40 --samples 8 --out steps.jsonl

Everything but the sampler is the preset `fast`; `released` takes step size and noise of the published code. Examples
come from the part of the file that nothing was tuned on. Each arm is written to --out when it is done; a second run
goes on with what is missing.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from pathlib import Path
from typing import Any

from benchmarks.data import Item, coverage, read_items, repetition
from cold.decoder import Decoding
from cold.evaluation.metrics import rouge_l
from cold.lm import LanguageModel, load
from cold.recipes import Recipe, preset
from cold.tasks import decode_many
from cold.text.sentences import has_loop

STEPS = [50, 100, 200, 500, 2000]


def arms(task: str, samples: int, steps: list[int]) -> dict[str, Recipe]:
    fast = preset(task, "fast").with_(samples=samples)
    samplers = {"ours": fast.sampler, "released": preset(task, "released").sampler}
    return {f"{n} {count}": fast.with_(sampler=table, steps=count) for count in steps for n, table in samplers.items()}


def judge(task: str, item: Item, decoding: Decoding) -> dict[str, float]:
    text, best = decoding.text, decoding.best
    match = coverage(text, item.example) if task == "lexical" else rouge_l(text, item.references)
    soft = [sample.soft_energy for sample in decoding.samples]
    hard = [sample.energy for sample in decoding.samples if not math.isnan(sample.energy)]
    return {
        "soft": statistics.fmean(soft), "hard": statistics.fmean(hard) if hard else math.nan, "best": best.energy,
        "match": match, "repetition": repetition(text), "loop": float(has_loop(text)),
    }  # fmt: skip


def run_arm(task: str, name: str, recipe: Recipe, lm: LanguageModel, items: list[Item]) -> dict[str, Any]:
    begun = time.monotonic()
    found = dict(decode_many(recipe, lm, None, [item.example for item in items]))
    judged = [judge(task, items[i], found[i]) for i in range(len(items))]
    mean = {key: statistics.fmean(j[key] for j in judged if not math.isnan(j[key])) for key in judged[0]}
    texts = {items[i].id: found[i].text for i in range(len(items))}
    row = {"task": task, "arm": name, "steps": recipe.steps, "examples": len(items), "samples": recipe.samples}
    return {**row, "seconds": time.monotonic() - begun, "seed": recipe.seed, "model": lm.name, **mean, "texts": texts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=["abductive", "lexical"])
    parser.add_argument("data", type=Path, help="aNLG's dev.json, or CommonGen's dev.jsonl")
    parser.add_argument("--examples", type=int, default=40)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--steps", type=int, nargs="+", default=STEPS)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--tuning", action="store_true", help="the quarter of the file that may be tuned on")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    items = read_items(args.task, args.data, args.tuning)[: args.examples]
    lm = load(args.model)
    known = [json.loads(line) for line in args.out.read_text().splitlines()] if args.out.exists() else []
    done = {(row["task"], row["arm"]): row for row in known}
    print(f"{args.task}, {lm.name} in {str(lm.dtype).removeprefix('torch.')} on {lm.device}, {len(items)} examples")
    score = "coverage" if args.task == "lexical" else "ROUGE-L"
    print(f"{'arm':>14} {'E soft':>8} {'E text':>8} {'E chosen':>8} {score:>8} {'repeated':>8} {'loops':>6} {'s':>6}")
    for name, recipe in arms(args.task, args.samples, args.steps).items():
        row = done.get((args.task, name))
        if row is None:
            row = run_arm(args.task, name, recipe, lm, items)
            with args.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
        print(f"{name:>14} {row['soft']:8.3f} {row['hard']:8.3f} {row['best']:8.3f} {row['match']:8.1f} "
              f"{row['repetition']:8.3f} {row['loop']:6.2f} {row['seconds']:6.1f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
