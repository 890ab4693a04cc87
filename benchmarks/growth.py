"""How the cost of a step grows with samples, length and left context: a table, JSON and one picture each.

python -m benchmarks.growth --shape smollm2 --out growth
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks import step

SWEEPS = {
    "samples": [1, 2, 4, 8, 16, 32, 64, 128, 256],
    "length": [5, 10, 20, 40, 80],
    "left": [10, 50, 100, 250, 500, 1000, 2000],
}
FIXED = {"samples": 16, "length": 10, "left": 12}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="smollm2")
    parser.add_argument("--most", type=int, default=10**9, help="leave larger values of every sweep out")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, required=True, help="folder for growth.json and three pictures")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[dict[str, Any]]] = {}
    for name, values in SWEEPS.items():
        print(f"-- {name}")
        found[name] = []
        for value in (v for v in values if v <= args.most):
            given = {**FIXED, name: value}
            options = [word for key, number in given.items() for word in (f"--{key}", str(number))]
            options += ["--shape", args.shape, "--steps", str(args.steps), "--device", args.device, "--no-literal"]
            found[name] += step.main(options)
        (args.out / "growth.json").write_text(json.dumps(found, indent=1) + "\n")  # what is done is kept
        draw(name, found[name], args.out / f"{name}.png")


def draw(name: str, rows: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4))
    values = [row[name] for row in rows]
    for way, style in (("graph", "o-"), ("eager", "s--"), ("limit", "k:")):
        if all(row.get(way) for row in rows):
            axes.plot(values, [1e3 * row[way] for row in rows], style, label=way)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    fixed = ", ".join(f"{key} {value}" for key, value in FIXED.items() if key != name)
    axes.set(xlabel=name, ylabel="milliseconds a step", title=f"{rows[0]['shape']}, {rows[0]['dtype']}, {fixed}")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


if __name__ == "__main__":
    main()
