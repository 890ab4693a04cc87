"""How the cost of a step grows with samples, length and left context: a table, JSON and one picture each.

python -m benchmarks.growth --shape smollm2 --out growth
"""

from __future__ import annotations

import argparse
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks import step
from benchmarks.shapes import make
from cold.lm.load import choose_device, choose_dtype

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
    parser.add_argument("--plot", type=Path, metavar="GROWTH.json", help="only draw what was measured before")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.plot:
        for name, rows in json.loads(args.plot.read_text()).items():
            draw(name, rows, args.out / f"{name}.png")
        return
    found: dict[str, list[dict[str, Any]]] = {}
    args.place = choose_device(args.device)
    args.kind = choose_dtype("auto", args.place)
    args.dtype, args.energy, args.total = str(args.kind).removeprefix("torch."), "abductive", 2000
    models = tuple(make(args.shape, args.place, args.kind, way) for way in (False, True))
    machine = step.measure_machine(args.place, args.kind)
    ways = ("graph",) if args.place.type == "cuda" else ("eager",)
    for name, values in SWEEPS.items():
        print(f"-- {name}\n{step.HEADER}")
        found[name] = []
        for value in (v for v in values if v <= args.most):
            given = argparse.Namespace(**{**vars(args), **FIXED, name: value})
            found[name].append(step.measure(given, given.samples, models, machine, ways))
            print(f"{step.line(found[name][-1], args.total)}   {name} {value}", flush=True)
        (args.out / "growth.json").write_text(json.dumps(found, indent=1) + "\n")  # what is done is kept
        if find_spec("matplotlib"):
            draw(name, found[name], args.out / f"{name}.png")
    if not find_spec("matplotlib"):
        print(f"no pictures without matplotlib: install it and run with --plot {args.out / 'growth.json'}")


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
    axes.set_xticks(values, [str(value) for value in values])
    axes.minorticks_off()
    low, high = axes.get_ylim()
    ticks = [tick for power in range(-3, 5) for tick in (10.0**power, 3 * 10.0**power) if low < tick < high]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    fixed = ", ".join(f"{key} {value}" for key, value in FIXED.items() if key != name)
    axes.set(xlabel=name, ylabel="milliseconds a step", title=f"{rows[0]['shape']}, {rows[0]['dtype']}, {fixed}")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


if __name__ == "__main__":
    main()
