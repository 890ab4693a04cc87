"""How many examples a minute: in planned batches against one by one, in one run.

    python -m benchmarks.pairs dev.json --pairs 96 --alone 8 --samples 16

Both ways decode whole examples with the preset `fast`, from text to text. Those decoded alone are also compared with
their texts in the batch, and (on a GPU) with the texts of steps that are not recorded as a graph.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.data import read_items
from cold.decoder import Decoding
from cold.lm import load
from cold.recipes import preset
from cold.sampling.graph import Track
from cold.tasks import decode, decode_many
from cold.tasks.many import device_memory, plan


def same(some: dict[int, Decoding], others: dict[int, Decoding]) -> tuple[int, int]:
    """How many samples have the same text in both, of how many."""
    rows = [(a.text, b.text) for i in others for a, b in zip(some[i].samples, others[i].samples, strict=True)]
    return sum(one == other for one, other in rows), len(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="aNLG's dev.json, or CommonGen's dev.jsonl with --task lexical")
    parser.add_argument("--task", default="abductive", choices=["abductive", "lexical"])
    parser.add_argument("--pairs", type=int, default=96, help="decoded in batches")
    parser.add_argument("--alone", type=int, default=8, help="of these, decoded one by one as well")
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    lm = load(args.model, dtype=args.dtype)
    given = [item.example for item in read_items(args.task, args.data)[: args.pairs]]
    recipe = preset(args.task, "fast").with_(samples=args.samples, steps=args.steps)
    gpu = lm.device.type == "cuda"
    decode(recipe.with_(steps=4), lm, None, given[:1])  # what is compiled or cached once
    sizes = [len(batch) for batch in plan(recipe, lm, given, device_memory(lm.device))]
    if gpu:
        torch.cuda.reset_peak_memory_stats()
    begun = time.monotonic()
    together = dict(decode_many(recipe, lm, None, given))
    spent = time.monotonic() - begun
    found: dict[str, Any] = {"task": args.task, "model": lm.name, "dtype": str(lm.dtype), "samples": recipe.samples}
    found |= {"steps": recipe.steps, "batches": sizes, "batched_per_minute": 60 * len(given) / spent}
    if gpu:
        found["memory_gib"] = torch.cuda.max_memory_allocated() / 2**30
    begun = time.monotonic()
    alone = {i: decode(recipe, lm, None, [given[i]])[0] for i in range(args.alone)}
    found["alone_per_minute"] = 60 * args.alone / (time.monotonic() - begun)
    found["same_as_alone"] = same(together, alone)
    if gpu:
        Track._record = lambda self, here: setattr(self, "plain", True)  # type: ignore[method-assign]
        begun = time.monotonic()
        eager = {i: decode(recipe, lm, None, [given[i]])[0] for i in range(args.alone)}
        found["eager_per_minute"] = 60 * args.alone / (time.monotonic() - begun)
        found["same_as_eager"] = same(eager, alone)
    for key, value in found.items():
        print(f"{key:20} {value:.1f}" if isinstance(value, float) else f"{key:20} {value}")
    if args.json:
        texts = [together[i].text for i in range(len(given))]
        args.json.write_text(json.dumps({**found, "texts": texts}, indent=1) + "\n")


if __name__ == "__main__":
    main()
