"""A run file as one HTML page that needs nothing else: run.jsonl -> report.html."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from cold.evaluation.runs import read_run
from cold.text.words import met, words_of

Metric = float | list[float] | str
Table = dict[str, Any]


def write_report(run: Path, out: Path, metrics: dict[str, Metric] | None = None) -> int:
    """Write the page of a run and return its number of examples; a metric is a value or [value, low, high]."""
    header, examples = read_run(run, _short)
    rows = [_row(example) for example in examples]
    shown = _summary(examples, rows) if metrics is None else metrics
    data = {
        "header": header,
        "metrics": {name: _finite(value) for name, value in shown.items()},
        "rows": rows,
        "examples": examples,
    }
    page = _fill(
        (resources.files("cold") / "evaluation" / "report.html").read_text(encoding="utf-8"),
        {"title": html.escape(_title(header)), "data": _script_json(data)},
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    # A lone surrogate is legal in JSON and not in UTF-8; in the title it becomes a replacement character.
    out.write_bytes(page.encode("utf-8", "xmlcharrefreplace"))
    return len(examples)


def _short(digits: str) -> float | None:
    """Six significant digits: all that a page shows, at half the size; JSON has no infinity."""
    value = float(f"{float(digits):.6g}")
    return value if math.isfinite(value) else None


def _row(example: Table) -> Table:
    """What is counted on the selected text."""
    text = example["samples"][example["selected"]]["text"]
    asked = example.get("inputs", {}).get("words") or []
    words = [asked] if isinstance(asked, str) else [word for word in asked if isinstance(word, str)]
    return {"length": len(words_of(text)), "coverage": len(met(text, words)) / len(words) if words else None}


def _summary(examples: Sequence[Table], rows: Sequence[Table]) -> dict[str, Metric]:
    """What the file alone can tell."""
    energies = (example["samples"][example["selected"]].get("energy") for example in examples)
    coverages = [row["coverage"] for row in rows if row["coverage"] is not None]
    means = {
        "mean energy of the selected": _mean(energies),
        "mean length in words": _mean(row["length"] for row in rows),
        "share with all required words": _mean(coverage == 1 for coverage in coverages),
    }
    return {"examples": len(examples), **{name: mean for name, mean in means.items() if mean is not None}}


def _mean(values: Iterable[Any]) -> float | None:
    known = [value for value in values if isinstance(value, int | float)]
    return sum(known) / len(known) if known else None


def _finite(value: Any) -> Any:
    """Numbers that JSON lacks become null."""
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _title(header: Table) -> str:
    parts = [header["task"], header.get("method"), header.get("preset")]
    return "cold: " + ", ".join(str(part) for part in parts if part)


def _script_json(data: Table) -> str:
    """JSON in ASCII that cannot close its script element, whatever the texts hold."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _fill(template: str, parts: Mapping[str, str]) -> str:
    """Fill every {{name}} in one pass, so that nothing filled in is read as a template."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)
