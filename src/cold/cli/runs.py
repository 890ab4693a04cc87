"""`cold run`: a whole file of examples, with a bar, running figures, and a file that can be gone on with."""

from __future__ import annotations

import hashlib
import statistics
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cold.baselines import BASELINES, Baseline
from cold.baselines.proposals import load_masked
from cold.cli import INTERRUPTED
from cold.errors import ColdError
from cold.evaluation import datasets, runs
from cold.evaluation.datasets import Broken, Item
from cold.lm.load import load
from cold.lm.partner import find_partner
from cold.recipes import preset
from cold.text.sentences import has_loop
from cold.text.words import met

SHOWN = 5  # broken lines that are named one by one


class Data(NamedTuple):
    """Which examples: of a file, or the few of ours; the first `limit` of a split, or so many from all over it."""

    path: Path | None = None
    split: str = "all"
    limit: int | None = None
    spread: bool = False


def run_file(
    task: str, data: Data, method: str, name: str, without: Sequence[str], out: Path, options: Any,
    masked: str | None = None,
) -> int:  # fmt: skip
    if method not in runs.METHODS:
        raise ColdError(f"there is no method {method!r}: use {', '.join(runs.METHODS)}")
    decoder, masked = runs.METHODS[method], None if masked == "none" else masked
    if masked and not (isinstance(decoder, Baseline) and decoder.asks_masked):
        asking = ", ".join(key for key, each in BASELINES.items() if each.asks_masked)
        raise ColdError(f"method {method!r} asks no masked model: use --masked with {asking}, or leave it out")
    source = data.path or datasets.sample_file(task)
    items, broken = collect(task, data._replace(path=source))

    def say(line: str) -> None:
        if not options.quiet:
            print(line, file=sys.stderr, flush=True)

    for entry in broken[:SHOWN]:
        say(f"{source.name}, line {entry.line}: {entry.reason}; left out")
    if broken:
        say(f"{len(broken)} broken entries of {source.name} were left out")
    if not items:
        raise ColdError(
            f"{source} has no example for the task {task} in the split {data.split}: check the file and --split"
        )
    recipe = preset(task, name).without(without).with_(**options.changes())
    lm = load(recipe.model, options.device, options.dtype)
    filler = load_masked(masked, str(lm.device)) if masked else None
    if filler is not None and isinstance(decoder, Baseline):
        filler.check(lm)
        decoder = decoder.with_masked(filler)
    reads = recipe.reads_reverse or getattr(decoder, "reads_reverse", False)
    reverse, told = find_partner(lm, recipe.reverse) if reads else (None, "")
    if told:
        say(f"note: {told}")
    about = {"file": source.name, "sha256": digest(source), "split": data.split, "limit": data.limit}
    about |= {"spread": True} if data.spread else {}
    about |= {"examples": len(items)}
    head = runs.header(task, method, recipe, lm, reverse, about, filler)
    figures = Figures()
    with Bar(len(items), options.quiet) as bar, warnings.catch_warnings():
        warnings.simplefilter("once", UserWarning)
        warnings.showwarning = lambda message, *_: say(f"note: {message}")
        try:
            for record in runs.execute(out, head, items, recipe, lm, reverse, decoder):
                figures.add(record.line)
                bar.show(record.done, record.fresh, figures)
        except KeyboardInterrupt:
            bar.stop()
            say(f"stopped after {figures.count} of {len(items)} examples; the same command goes on from there")
            return INTERRUPTED
    say(f"{figures.count} examples in {out}  {figures}")
    return 0


def digest(path: Path) -> str:
    """Of the file's bytes: a run is not gone on with over other data of the same name."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def collect(task: str, data: Data) -> tuple[list[Item], list[Broken]]:
    """The examples, and what could not be read on the way."""
    items: list[Item] = []
    broken: list[Broken] = []
    assert data.path is not None
    for entry in datasets.read(task, data.path):
        if isinstance(entry, Broken):
            broken.append(entry)
        elif datasets.in_split(entry, data.split):
            items.append(entry)
            if not data.spread and data.limit is not None and len(items) >= data.limit:
                break
    return datasets.spread(items, data.limit) if data.spread and data.limit is not None else items, broken


class Figures:
    """Running means over the selected texts."""

    def __init__(self) -> None:
        self.count = 0
        self.kept: dict[str, list[float]] = {"energy": [], "loops": [], "coverage": []}

    def add(self, line: dict[str, Any]) -> None:
        self.count += 1
        chosen, words = line["samples"][line["selected"]], line["inputs"].get("words", [])
        if chosen["energy"] is not None:
            self.kept["energy"].append(chosen["energy"])
        self.kept["loops"].append(100.0 * has_loop(chosen["text"]))
        if words:
            self.kept["coverage"].append(100 * len(met(chosen["text"], words)) / len(words))

    def __str__(self) -> str:
        units = {"energy": "", "loops": " %", "coverage": " %"}
        return "  ".join(f"{key} {statistics.fmean(kept):.1f}{units[key]}" for key, kept in self.kept.items() if kept)


class Bar:
    """Rate, time left and running figures on a terminal; a line now and then elsewhere."""

    def __init__(self, total: int, quiet: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        self.total, self.live, self.quiet = total, console.is_terminal and not quiet, quiet
        self.progress = Progress(
            MofNCompleteColumn(), BarColumn(bar_width=20), TimeRemainingColumn(),
            TextColumn("{task.fields[rate]}  {task.fields[figures]}", markup=False), console=console, transient=True,
        )  # fmt: skip
        self.task = self.progress.add_task("", total=total, rate="", figures="")
        self.fresh = 0

    def __enter__(self) -> Bar:
        if self.live:
            self.progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        if self.live:
            self.progress.stop()

    def show(self, done: int, fresh: bool, figures: Figures) -> None:
        self.fresh += fresh
        if self.live:
            spent = self.progress.tasks[0].elapsed or 0.0
            rate = f"{60 * self.fresh / spent:.1f} a minute" if self.fresh and spent else ""
            self.progress.update(self.task, completed=done, rate=rate, figures=str(figures))
        elif not self.quiet and fresh and (done == self.total or self.fresh % 10 == 1):
            print(f"{done}/{self.total}  {figures}", file=sys.stderr, flush=True)
