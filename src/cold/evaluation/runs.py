"""A run: one decoder over one file of examples, as JSON lines that a stopped run goes on with."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from cold.baselines.left_only import left_only
from cold.decoder import Decoding
from cold.errors import ColdError
from cold.evaluation.datasets import Item
from cold.evaluation.record import describe_sample, plain, setting
from cold.lm.model import LanguageModel
from cold.recipes import Recipe
from cold.tasks.many import Method, decode_many
from cold.tasks.solve import decode

SCHEMA_VERSION = 1
POINTS = 100  # of a trace, at most
METHODS: dict[str, Method] = {
    "cold": decode,
    "left-only": left_only,
    "left-only-greedy": partial(left_only, greedy=True),
}
SAME = ("schema_version", "task", "method", "data", "configuration", "model", "reverse", "dtype")


class Record(NamedTuple):
    """One finished example: its line, whether it was done now, and how many are done."""

    line: dict[str, Any]
    fresh: bool
    done: int


def header(
    task: str, method: str, recipe: Recipe, lm: LanguageModel, reverse: LanguageModel | None, data: dict[str, Any]
) -> dict[str, Any]:
    """Everything that decides the texts, and the versions they came from."""
    made = {
        "kind": "header",
        "schema_version": SCHEMA_VERSION,
        "task": task,
        "method": method,
        "preset": recipe.source,
        "data": data,
        "configuration": recipe.tables(),
        **setting(lm, reverse),
    }
    as_read: dict[str, Any] = json.loads(json.dumps(made))
    return as_read


def execute(
    out: Path, head: dict[str, Any], items: Sequence[Item], recipe: Recipe, lm: LanguageModel,
    reverse: LanguageModel | None,
) -> Iterator[Record]:  # fmt: skip
    """Decode what is missing and append it line by line; yields every example, old ones first."""
    known = resume(out, head)
    yield from (Record(line, False, number) for number, line in enumerate(known, 1))
    done, number_of = {line["id"] for line in known}, {item.id: n for n, item in enumerate(items)}
    skip = {number_of[key] for key in done if key in number_of}
    method = METHODS[head["method"]]
    examples = [item.example for item in items]
    with out.open("a", encoding="utf-8") as file:
        begun = time.monotonic()
        for number, found in decode_many(recipe, lm, reverse, examples, method=method, skip=skip):
            if number in skip:
                continue
            line = as_line(items[number], found, recipe.seed, time.monotonic() - begun)
            begun = time.monotonic()
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
            done.add(line["id"])
            yield Record(line, True, len(done))


def resume(out: Path, head: dict[str, Any]) -> list[dict[str, Any]]:
    """The examples that a run file already has; a new file gets its header, a torn last line is cut off."""
    if not out.exists() or not out.stat().st_size:
        if not out.parent.is_dir():
            raise ColdError(f"there is no folder {out.parent}: make it first, or choose another --out")
        out.write_text(json.dumps(head, ensure_ascii=False) + "\n", encoding="utf-8")
        return []
    lines = repair(out)
    if not lines:
        return resume(out, head)
    old, *known = lines
    if old.get("kind") != "header":
        raise ColdError(f"{out} is not a run file: choose another --out, nothing in it was changed")
    if differing := differences({k: old.get(k) for k in SAME}, {k: head[k] for k in SAME}):
        shown = "; ".join(differing[:6]) + (f"; and {len(differing) - 6} more" if len(differing) > 6 else "")
        raise ColdError(
            f"{out} was begun with another configuration ({shown}): choose another --out, or the old options"
        )
    return known


def repair(out: Path) -> list[dict[str, Any]]:
    """All whole lines; what a killed run has left half written at the end is cut off."""
    good, lines = 0, []
    with out.open("rb") as file:
        for raw in file:
            try:
                line = json.loads(raw)
            except ValueError:
                line = None
            if not raw.endswith(b"\n") or not isinstance(line, dict):
                break
            lines.append(line)
            good += len(raw)
        rest = file.read()
    if rest.strip():
        raise ColdError(
            f"{out} is damaged in line {len(lines) + 1}, with more behind it: it is not a run file, or it was edited; "
            "mend that line or choose another --out"
        )
    if good < out.stat().st_size:
        with out.open("r+b") as file:
            file.truncate(good)
    return lines


def read_run(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Header and examples of a run file, which is not touched; a torn last line is left out."""
    lines: list[dict[str, Any]] = []
    try:
        with path.open(encoding="utf-8") as file:
            for raw in file:
                try:
                    lines.append(json.loads(raw))
                except ValueError:
                    break
    except (OSError, UnicodeDecodeError) as error:
        raise ColdError(f"{path} cannot be read ({error}): check the path") from error
    if not lines or not isinstance(lines[0], dict) or lines[0].get("kind") != "header":
        raise ColdError(f"{path} is not a run file: `cold run` writes one")
    return lines[0], lines[1:]


def differences(old: Any, new: Any, place: str = "") -> list[str]:
    """Where two configurations differ, in words."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = dict.fromkeys([*old, *new])
        return [d for key in keys for d in differences(old.get(key), new.get(key), f"{place}.{key}".lstrip("."))]
    return [] if old == new else [f"{place}: {_short(old)} then, {_short(new)} now"]


def as_line(item: Item, found: Decoding, seed: int, seconds: float) -> dict[str, Any]:
    inputs = {key: value for key, value in vars(item.example).items() if value and key != "key"}
    line: dict[str, Any] = {
        "kind": "example",
        "id": item.id,
        "inputs": inputs,
        "references": item.references,
        "text": found.text,
        "selected": found.order[0],
        "order": found.order,
        "samples": [describe_sample(sample) for sample in found.samples],
        "seed": seed,
        "trace": thin(found),
        "seconds": round(seconds, 3),
    }
    return plain(line)  # type: ignore[no-any-return]


def thin(found: Decoding) -> dict[str, Any]:
    """At most POINTS points of the mean energy and the mean terms of the samples; empty without a chain."""
    if not found.trace:
        return {}
    last = len(found.trace) - 1
    count = min(POINTS, len(found.trace))
    at = sorted({round(i * last / max(1, count - 1)) for i in range(count)})
    names = list(found.samples[0].terms)
    rows = slice(found.rows.start, found.rows.stop)
    scores = [found.trace[i].scores[:, rows].mean(1).tolist() for i in at]
    return {
        "step": [found.trace[i].step for i in at],
        "energy": [float(found.trace[i].energy[rows].mean()) for i in at],
        "terms": {name: [row[n] for row in scores] for n, name in enumerate(names)},
    }


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."
