"""A step now against a step of an earlier commit, in turns, in one run.

    python -m benchmarks.against 2ecb952 --preset paper --samples 8 --shortlist 8192

The earlier commit is checked out beside the working tree (`git worktree`) and timed in a process of its own; so is the
present one. Both run the same chain of the same abductive example, as a decoding runs it, with the same model and the
same right-to-left partner; the mean over all steps but the first is compared. With --shortlist the present one is timed
once more, its chain over so many tokens.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEFT = "I bought a great pair of red shoes at the shoe store."
RIGHT = "I ended up getting a white pair with no heels."
TIMER = """
import json, sys, time, warnings
import torch
from cold.lm.load import load
from cold.recipes import build, preset
from cold.sampling.noise import row_seed
from cold.tasks import examples
warnings.simplefilter("ignore")
given = json.loads(sys.argv[1])
lm, back = load(given["model"], "cpu"), load(given["reverse"], "cpu", reverse=True)
recipe = preset("abductive", given["preset"]).with_(samples=given["samples"], steps=given["steps"], **given["more"])
job = build(recipe, lm, back, [examples.abductive(given["left"], given["right"])])
chain = job.decoder.chain(job.problems, [row_seed(0, i) for i in range(recipe.samples)])
next(chain)  # the first step also reads the prefix and warms up
begun = time.perf_counter()
taken = sum(1 for _ in chain)
print(json.dumps({"step": (time.perf_counter() - begun) / taken, "terms": job.problems.energy.names}))
"""


def timed(source: Path, given: dict[str, object]) -> dict[str, object]:
    run = subprocess.run(
        [sys.executable, "-c", TIMER, json.dumps(given)],
        env={**os.environ, "PYTHONPATH": str(source)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if run.returncode:
        raise SystemExit(run.stderr.strip().splitlines()[-1])
    found: dict[str, object] = json.loads(run.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--preset", default="paper", choices=["paper", "released"])
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--steps", type=int, default=21)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shortlist", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        then, reverse = Path(place, "then"), Path(place, "mini-reverse")
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(then), args.commit], cwd=ROOT, check=True)
        try:
            export = "from cold.lm.load import load, save; from pathlib import Path; import sys; "
            export += "save(load('mini-reverse', 'cpu'), Path(sys.argv[1]))"
            subprocess.run([sys.executable, "-c", export, str(reverse)], check=True)
            given = {"model": args.model, "reverse": str(reverse), "preset": args.preset, "samples": args.samples}
            given |= {"steps": args.steps, "left": LEFT, "right": RIGHT, "more": {}}
            arms = [(then / "src", given), (ROOT / "src", given)]
            if args.shortlist:
                arms.append((ROOT / "src", given | {"more": {"shortlist": args.shortlist}}))
            rounds = [[timed(*arm) for arm in arms] for _ in range(args.rounds)]
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(then)], cwd=ROOT, check=True)
    names = [args.commit, "now", f"{args.shortlist:,} tokens"][: len(rounds[0])]
    print(f"{args.model} + mini-reverse, {args.preset}: {', '.join(rounds[0][1]['terms'])}; {args.samples} samples")  # type: ignore[call-overload]
    print(f"seconds a step, mean of {args.steps - 1}, and how many times as fast as {args.commit}")
    print("round " + "".join(f"{name:>20}" for name in names))
    found = []
    for number, row in enumerate(rounds):
        seconds = [float(arm["step"]) for arm in row]  # type: ignore[arg-type]
        found.append([seconds[0] / each for each in seconds])
        print(f"{number:5} " + "".join(f"{s:12.3f} {r:5.2f} x" for s, r in zip(seconds, found[-1], strict=True)))
    print("median" + "".join(f"{statistics.median(ratios):18.2f} x" for ratios in zip(*found, strict=True)))


if __name__ == "__main__":
    main()
