"""The paper's tables from run files: its numbers and ours side by side, gaps where nothing was run."""

from __future__ import annotations

import csv
import re
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from cold.errors import ColdError
from cold.evaluation.evaluate import Scores
from cold.evaluation.metrics import Estimate, bootstrap_mean
from cold.recipes import preset

ABLATIONS = ("without", "top-k")
BESIDE = ["repeated 3-gram %", "words", "self-BLEU of samples", "perplexity", "energy"]  # what the paper lacks


class Row(NamedTuple):
    """One line: who, on how many examples, and its cells by metric."""

    name: str
    examples: int | None
    cells: dict[str, Estimate | float]


class Table(NamedTuple):
    task: str
    title: str
    columns: list[str]
    rows: list[Row]
    notes: list[str]


def tables(runs: Sequence[Scores]) -> list[Table]:
    """One table for each task of the paper, for its two ablations and its run times, with the runs there are."""
    printed = tomllib.loads((resources.files("cold") / "evaluation" / "paper.toml").read_text(encoding="utf-8"))
    timed = printed.pop("run-time")
    found = [_table(name, told, _belonging(name, told, runs)) for name, told in printed.items()]
    return [*found, _run_times(timed, [scores for scores in runs if not _ablates(scores)])]


def _belonging(name: str, told: dict[str, Any], runs: Sequence[Scores]) -> list[Scores]:
    """The runs of a task as it is; or those that change what an ablation is about, and what they changed."""
    change = told.get("change")
    if change is None:
        return [scores for scores in runs if scores.header["task"] == name and not _ablates(scores)]
    changed = [s for s in runs if s.header["task"] == told["of"] and any(c.startswith(change) for c in _ablates(s))]
    changed.sort(key=lambda s: [int(n) for n in re.findall(r"\d+", " ".join(_ablates(s)))])
    kept = [_sameness(scores) for scores in changed]
    return [scores for scores in runs if not _ablates(scores) and _sameness(scores) in kept] + changed


def _ablates(scores: Scores) -> list[str]:
    header = scores.header
    changes = _changes(header, str(header["preset"])) if header["method"] == "cold" else []
    return [change for change in changes if change.startswith(ABLATIONS)]


def _sameness(scores: Scores) -> tuple[Any, ...]:
    """What a run must share with another to be compared with it."""
    header = scores.header
    return header["task"], header["method"], header["preset"], header["configuration"]["samples"], sorted(scores.ids)


def label(header: dict[str, Any]) -> str:
    """A run in a few words: method, what it asks, preset, and what was changed in it."""
    if header["method"] != "cold":
        asked = header.get("masked")
        return str(header["method"]) + (f" asking {asked['name']}" if asked else "")
    name = str(header["preset"])
    return " ".join(["COLD", name, *_changes(header, name)])


def _changes(header: dict[str, Any], name: str) -> list[str]:
    given = header["configuration"]
    try:
        stock = preset(header["task"], name)
    except ColdError:
        return []
    kept = replace(stock, terms=given["terms"]).term_names
    found = [f"without {term}" for term in stock.term_names if term not in kept]
    k, usual = (table.get("k", table.get("top")) for table in (given["discretize"], stock.discretize))
    found += [f"top-k {k}"] if k != usual else []
    few = given.get("shortlist", 0)
    found += [f"{few or 'all'} tokens"] if few != stock.shortlist else []
    found += [f"{given['steps']} steps"] if given["steps"] != stock.steps else []
    return found + ([f"{given['samples']} samples"] if given["samples"] != stock.samples else [])


def _table(task: str, told: dict[str, Any], runs: Sequence[Scores]) -> Table:
    columns = list(told["metrics"])
    columns += [name for name in BESIDE if name not in columns and any(name in s.each for s in runs)]
    rows = [Row(f"{who} (paper)", None, _beside(cells)) for who, cells in told.items() if isinstance(cells, dict)]
    rows += [Row(_who(scores), len(scores.ids), dict(scores.estimates())) for scores in runs]
    notes = list(dict.fromkeys(note for scores in runs for note in scores.notes))
    notes += [f"{_who(scores)}: {_setting(scores)}" for scores in runs]
    return Table(task, told["title"], columns, rows, notes)


def _run_times(told: dict[str, Any], runs: Sequence[Scores]) -> Table:
    rows = [Row(f"{who} (paper)", None, dict(cells)) for who, cells in told.items() if isinstance(cells, dict)]
    for scores in runs:
        who = f"{scores.header['task']}, {_who(scores)}, {scores.header['device']}"
        rows.append(Row(who, len(scores.ids), {"seconds a sample": bootstrap_mean(scores.each["seconds a sample"])}))
    return Table("run-time", told["title"], list(told["metrics"]), rows, [])


def _beside(cells: dict[str, float]) -> dict[str, Estimate | float]:
    """The paper's one number for the minimal edit stands under both readings: it fits one of them."""
    named: dict[str, Estimate | float] = {name: value for name, value in cells.items() if name != "overlap"}
    if "overlap" in cells:
        named |= {"edit overlap": cells["overlap"], "edit similarity": cells["overlap"]}
    return named


def _who(scores: Scores) -> str:
    return f"{label(scores.header)} ({scores.header['model']['name']})"


def _setting(scores: Scores) -> str:
    head, given = scores.header, scores.header["configuration"]
    data = head["data"]
    reverse = f" + {head['reverse']['name']}" if head["reverse"] else ""
    samples = 1 if head["method"].endswith("greedy") else given["samples"]
    steps = f", {given['steps']} steps" if head["method"] == "cold" else ""
    return (
        f"{data.get('file')}, split {data.get('split')}; {head['model']['name']}{reverse} in {head['dtype']}; "
        f"{samples} sample{'s' * (samples > 1)}{steps}, seed {given['seed']}"
    )


def as_markdown(found: Sequence[Table]) -> str:
    lines = ["# The paper's tables", ""]
    lines += [
        "Rows marked (paper) are the paper's numbers: GPT-2 XL on its own test sets, so they stand beside ours for",
        "orientation, not for comparison. Ours have 95 % bootstrap intervals over the examples. What has not been run",
        "leaves a gap.",
        "",
    ]
    for table in found:
        lines += [f"## {table.title}", "", "| | examples | " + " | ".join(table.columns) + " |"]
        lines.append("|---" * (len(table.columns) + 2) + "|")
        for row in table.rows:
            cells = [_cell(row.cells.get(column)) for column in table.columns]
            lines.append(f"| {row.name} | {row.examples or ''} | " + " | ".join(cells) + " |")
        lines += ["", *(f"- {note}" for note in table.notes), ""]
    return "\n".join(lines)


def write(found: Sequence[Table], folder: Path) -> list[Path]:
    """tables.md, a CSV for each table, and a picture of each that has a row of ours, where matplotlib is installed."""
    folder.mkdir(parents=True, exist_ok=True)
    made = [folder / "tables.md"]
    made[0].write_text(as_markdown(found), encoding="utf-8")
    for table in found:
        made.append(folder / f"{table.task}.csv")
        with made[-1].open("w", encoding="utf-8", newline="") as file:
            out = csv.writer(file)
            out.writerow(["who", "examples", *(f"{c}{part}" for c in table.columns for part in ("", " low", " high"))])
            for row in table.rows:
                values = [part for column in table.columns for part in _parts(row.cells.get(column))]
                out.writerow([row.name, row.examples or "", *values])
        if find_spec("matplotlib") and any(row.examples for row in table.rows):
            made.append(folder / f"{table.task}.png")
            draw(table, made[-1])
    return made


def draw(table: Table, path: Path) -> None:
    """A panel for each metric: the paper's numbers as points, ours with their intervals."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = table.rows[::-1]
    figure, panels = pyplot.subplots(
        1,
        len(table.columns),
        figsize=(2.6 * len(table.columns) + 2.5, 0.35 * len(rows) + 1.2),
        sharey=True,
        squeeze=False,
    )
    for panel, column in zip(panels[0], table.columns, strict=True):
        for place, row in enumerate(rows):
            value = row.cells.get(column)
            if isinstance(value, Estimate):
                panel.plot([value.low, value.high], [place, place], color="#1f6078")
                panel.plot(value.value, place, "o", color="#1f6078")
            elif value is not None:
                panel.plot(value, place, "x", color="#888888")
        panel.set_title(column, fontsize=9)
        panel.tick_params(labelsize=8)
        panel.grid(axis="x", alpha=0.3)
    panels[0][0].set_yticks(range(len(rows)), [row.name for row in rows])
    figure.savefig(path, dpi=120, bbox_inches="tight")
    pyplot.close(figure)


def _cell(value: Estimate | float | None) -> str:
    if value is None:
        return ""
    if isinstance(value, Estimate):
        return f"{value.value:.2f} [{value.low:.2f}, {value.high:.2f}]"
    return f"{value:.2f}"


def _parts(value: Estimate | float | None) -> tuple[float | str, ...]:
    if value is None:
        return "", "", ""
    return tuple(value) if isinstance(value, Estimate) else (value, "", "")
