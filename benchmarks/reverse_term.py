"""Does the right-to-left term help? The abductive task with and without it, on pairs of the aNLG development file.

    python -m benchmarks.reverse_term dev.json --pairs 50 --weight 0.33

Arms differ in nothing but the term. Pairs come from the three quarters of the file that nothing was tuned on, or with
--tuning from the other one (split by a hash of the id). Texts are written to --out as they come; a second run goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.data import repetition
from cold.evaluation.datasets import tuned_on
from cold.evaluation.metrics import rouge_l
from cold.lm import LanguageModel, load
from cold.lm.prefix import Prefix
from cold.lm.score import log_likelihood
from cold.recipes import Recipe
from cold.recipes.recipe import preset_text
from cold.tasks.examples import abductive
from cold.tasks.solve import decode

TERM = """
[contexts.back]
model = "reverse"
right = "{{right}}"
temperature = 1.0

[[terms]]
kind = "fluency"
name = "fluency_reverse"
context = "back"
weight = {weight}
reduction = "mean"
detach = {detach}
"""


def nll_right(lm: LanguageModel, left: str, text: str, right: str) -> float:
    """Nats per token of the right text after left and text."""
    ids = lm.encode_after(" " + right)
    prefix = Prefix.of(lm, [[lm.separator, *lm.encode(f"{left} {text}")]])
    return -float(log_likelihood(prefix, [ids])[0]) / len(ids)


def run_arm(
    name: str, recipe: Recipe, models: tuple[Any, Any], items: dict[str, Any], args: argparse.Namespace
) -> None:
    done = {(r["arm"], r["id"]) for r in read(args.out)}
    todo = [key for key in items if (name, key) not in done]
    for first in range(0, len(todo), args.batch):
        keys, begun = todo[first : first + args.batch], time.monotonic()
        batch = [abductive(items[key]["obs1"], items[key]["obs2"]) for key in keys]
        found = decode(recipe, models[0], models[1], batch)
        with args.out.open("a") as file:
            for key, example, decoding in zip(keys, batch, found, strict=True):
                texts = [sample.text for sample in decoding.samples]
                row = {
                    "arm": name, "id": key, "text": decoding.text, "samples": texts,
                    "rouge_l": rouge_l(decoding.text, items[key]["gold_labels"]),
                    "nll_right": nll_right(models[0], example.left, decoding.text, example.right),
                    "repetition": repetition(decoding.text),
                }  # fmt: skip
                file.write(json.dumps(row) + "\n")
        print(f"{name} {first + len(keys)}/{len(todo)}  {time.monotonic() - begun:.1f} s", file=sys.stderr, flush=True)


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="aNLG development file (obs1, obs2, gold_labels by id)")
    parser.add_argument("--pairs", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="leave out so many pairs at the beginning")
    parser.add_argument("--batch", type=int, default=1, help="pairs decoded at once")
    parser.add_argument("--weight", type=float, action="append", help="of the reverse term; repeatable")
    parser.add_argument("--preset", default="abductive-fast")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--reverse", default="mini-reverse")
    parser.add_argument("--written", action="store_true", help="one more arm: differentiate through the reverse LM")
    parser.add_argument("--tuning", action="store_true", help="the quarter of the file that may be tuned on")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--out", type=Path, default=Path("reverse_term.jsonl"))
    args = parser.parse_args()
    items = {key: item for key, item in json.loads(args.data.read_text()).items() if tuned_on(key) == args.tuning}
    items = dict(list(items.items())[args.first : args.first + args.pairs])
    models = load(args.model), load(args.reverse, reverse=True)
    arms = {"without": preset_text(args.preset)}
    for weight in args.weight or [0.33]:
        arms[f"with {weight}"] = arms["without"] + TERM.format(weight=weight, detach="true")
        if args.written:
            arms[f"with {weight}, as written"] = arms["without"] + TERM.format(weight=weight, detach="false")
    for name, text in arms.items():
        run_arm(name, Recipe.parse(text, name).with_(steps=args.steps), models, items, args)
    print(f"{'arm':24} {'pairs':>5} {'ROUGE-L':>8} {'nll right':>10} {'repetition':>11}")
    for name in arms:
        rows = [r for r in read(args.out) if r["arm"] == name and r["id"] in items]
        mean = {key: sum(r[key] for r in rows) / len(rows) for key in ("rouge_l", "nll_right", "repetition")}
        print(f"{name:24} {len(rows):5} {mean['rouge_l']:8.1f} {mean['nll_right']:10.3f} {mean['repetition']:11.3f}")


if __name__ == "__main__":
    main()
