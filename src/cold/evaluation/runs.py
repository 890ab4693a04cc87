"""A run: one decoder over one file of examples, as JSON lines that a stopped run goes on with."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cold.baselines import BASELINES
from cold.baselines.proposals import MaskedModel
from cold.decoder import Decoding
from cold.errors import ColdError
from cold.evaluation.datasets import Item
from cold.evaluation.record import describe, describe_sample, plain, setting
from cold.lm.model import LanguageModel
from cold.recipes import Recipe
from cold.tasks.many import Method, decode_batches
from cold.tasks.solve import decode

SCHEMA_VERSION = 1
POINTS = 100  # of a trace, at most
METHODS: dict[str, Method] = {"cold": decode, **BASELINES}
START = b'{"kind": "header", '  # of every run file
SAME = ("schema_version", "task", "method", "data", "configuration", "model", "reverse", "masked", "dtype")


class Record(NamedTuple):
    """One finished example: its line, whether it was done now, and how many are done."""

    line: dict[str, Any]
    fresh: bool
    done: int


def header(
    task: str, method: str, recipe: Recipe, lm: LanguageModel, reverse: LanguageModel | None, data: dict[str, Any],
    masked: MaskedModel | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Everything that decides the texts, and the versions they came from."""
    made = {
        "kind": "header",
        "schema_version": SCHEMA_VERSION,
        "task": task,
        "method": method,
        "preset": recipe.source.removeprefix(f"preset {task}-"),
        "data": data,
        "configuration": recipe.tables(),
        **setting(lm, reverse),
        "masked": describe(masked) if masked else None,
    }
    as_read: dict[str, Any] = json.loads(json.dumps(made))
    return as_read


def execute(
    out: Path, head: dict[str, Any], items: Sequence[Item], recipe: Recipe, lm: LanguageModel,
    reverse: LanguageModel | None, method: Method | None = None,
) -> Iterator[Record]:  # fmt: skip
    """Decode what is missing and append it line by line; yields every example, old ones first.

    `method`: the header's, unless it has been given something of its own, such as a masked model.
    """
    done = resume(out, head)
    yield from (Record(line, False, number) for number, line in enumerate(_stored(out), 1))
    number_of = {item.id: n for n, item in enumerate(items)}
    skip = {number_of[key] for key in done if key in number_of}
    method = method or METHODS[head["method"]]
    examples = [item.example for item in items]
    with out.open("a", encoding="utf-8") as file:
        begun = time.monotonic()
        for batch, decodings in decode_batches(recipe, lm, reverse, examples, method=method, skip=skip):
            seconds = (time.monotonic() - begun) / len(batch)
            for number, found in zip(batch, decodings, strict=True):
                if number in skip:
                    continue
                line = as_line(items[number], found, recipe.seed, seconds)
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
                file.flush()
                os.fsync(file.fileno())
                done.add(line["id"])
                yield Record(line, True, len(done))
            begun = time.monotonic()


def resume(out: Path, head: dict[str, Any]) -> set[str]:
    """The ids that a run file already has; a new file gets its header, a torn last line is cut off."""
    if not out.parent.is_dir():
        raise ColdError(f"there is no folder {out.parent}: make it first, or choose another --out")
    found = scan(out) if out.exists() else Scan(None, set(), 0, b"")
    old = found.first
    if old is None and START.startswith(found.rest[: len(START)]):  # nothing, or half a header of ours
        out.write_text(json.dumps(head, ensure_ascii=False) + "\n", encoding="utf-8")
        return set()
    if old is None or not _is_header(old):
        raise ColdError(f"{out} is not a run file: choose another --out, nothing in it was changed")
    if differing := differences({k: old.get(k) for k in SAME}, {k: head.get(k) for k in SAME}):
        shown = "; ".join(differing[:6]) + (f"; and {len(differing) - 6} more" if len(differing) > 6 else "")
        raise ColdError(
            f"{out} was begun with another configuration ({shown}): choose another --out, or the old options"
        )
    if b"\n" in found.rest.rstrip():
        raise ColdError(f"{out} is damaged in the middle, at byte {found.good}: mend that line or choose another --out")
    if found.rest:
        os.truncate(out, found.good)
    return found.ids


class Scan(NamedTuple):
    """A run file up to where it is whole: its first line, the ids of the others, how many bytes; and what follows."""

    first: dict[str, Any] | None
    ids: set[str]
    good: int
    rest: bytes


def scan(out: Path) -> Scan:
    first, ids, good = None, set[str](), 0
    with out.open("rb") as file:
        for raw in file:
            line = _parse(raw, float)
            if not raw.endswith(b"\n") or not isinstance(line, dict):
                break
            first = line if first is None else first
            ids |= {str(line["id"])} if "id" in line else set()
            good += len(raw)
        file.seek(good)
        return Scan(first, ids, good, file.read())


def _stored(out: Path) -> Iterator[dict[str, Any]]:
    with out.open("rb") as file:
        next(file)
        yield from (json.loads(raw) for raw in file)


def read_run(path: Path, number: Callable[[str], Any] = float) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Header and examples of a run file, which is not touched; a torn last line is left out. `number` reads floats."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise ColdError(f"cannot read the run file {path} ({error.strerror}): check the path") from error
    records = [(place, _parse(line, number)) for place, line in enumerate(lines, 1) if line.strip()]
    if not records or not _is_header(records[0][1]):
        raise ColdError(f"{path} is no run file: its first line is no header; give a .jsonl that `cold run` wrote")
    version = records[0][1].get("schema_version")
    if version != SCHEMA_VERSION:
        raise ColdError(
            f"{path} has schema version {version} and this program reads {SCHEMA_VERSION}: "
            "it comes from another version of cold; use the one that wrote it"
        )
    if records[-1][1] is None:  # torn: the run was stopped, or is still going on
        records.pop()
    for place, record in records[1:]:
        if fault := _fault(record):
            raise ColdError(f"line {place} of {path} {fault}: the file is damaged; delete the line and resume the run")
    return records[0][1], [record for _, record in records[1:]]


def _parse(line: bytes, number: Callable[[str], Any]) -> Any:
    """The line's value, or None where it is no JSON."""
    try:
        return json.loads(line.decode("utf-8"), parse_float=number, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None


def _is_header(record: Any) -> bool:
    return isinstance(record, dict) and record.get("kind") == "header" and isinstance(record.get("task"), str)


def _fault(record: Any) -> str | None:
    """What keeps a line from being an example, as the end of a sentence."""
    if not isinstance(record, dict):
        return "is no JSON object"
    if record.get("kind") != "example":
        return f"is of kind {record.get('kind')!r}, not 'example'"
    samples, selected = record.get("samples"), record.get("selected")
    if not isinstance(samples, list) or not all(
        isinstance(s, dict) and isinstance(s.get("text"), str) for s in samples
    ):
        return "has no samples with texts"
    if not isinstance(selected, int) or not 0 <= selected < len(samples):
        return f"selects sample {selected!r} of {len(samples)}"
    if not isinstance(record.get("inputs", {}), dict):
        return "has inputs that are no table"
    return None


def differences(old: Any, new: Any, place: str = "") -> list[str]:
    """Where two configurations differ, in words."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = dict.fromkeys([*old, *new])
        return [d for key in keys for d in differences(old.get(key), new.get(key), f"{place}.{key}".lstrip("."))]
    return [] if old == new else [f"{place}: {_short(old)} then, {_short(new)} now"]


def as_line(item: Item, found: Decoding, seed: int, seconds: float) -> dict[str, Any]:
    inputs = {key: value for key, value in vars(item.example).items() if value and key != "key"}
    if inputs.get("keywords") == inputs.get("words"):
        inputs.pop("keywords", None)
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
