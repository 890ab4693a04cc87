"""One decoding command from start to end: load, run with a live view, finish, print; Ctrl-C keeps the best so far."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from cold.cli import INTERRUPTED
from cold.cli.options import Options, check_trace
from cold.cli.report import as_json, as_text
from cold.cli.view import View
from cold.decoder import Decoding
from cold.errors import ColdError
from cold.lm.load import load
from cold.lm.partner import Partner, find_partner
from cold.recipes import Job, Recipe, build, preset
from cold.recipes.build import read_texts
from cold.sampling.diagnostics import Info
from cold.tasks import examples
from cold.tasks.solve import seeds
from cold.text.problems import Example

WATCH = 10  # steps between two close looks at the chain, where a trace is wanted


def task_recipe(task: str, texts: dict[str, Any], name: str) -> tuple[Recipe, Example]:
    example = getattr(examples, task)(**texts)
    return preset(task, name), example


def sample_recipe(path: Path) -> tuple[Recipe, Example]:
    sys.path.insert(0, str(path.resolve().parent))  # a term may name a function in a file beside the energy
    recipe = Recipe.read(path)
    return recipe, read_texts(recipe)


def decode(task: str, recipe: Recipe, example: Example, options: Options) -> int:
    check_trace(options.trace)
    recipe = recipe.with_(**options.changes())
    clock = {"start": time.monotonic()}
    lm = load(recipe.model, options.device, options.dtype)
    reverse, told = find_partner(lm, recipe.reverse) if recipe.reads_reverse else _unread(recipe.reverse)
    job = build(recipe, lm, reverse, [example])
    job = replace(job, notes=(*filter(None, [told]), *job.notes))
    if options.trace:
        job = replace(job, decoder=replace(job.decoder, watch=WATCH))
    clock["loaded"] = time.monotonic()
    with View(recipe, lm, options.quiet) as view:
        for note in job.notes:
            view.say(f"note: {note}")
        found, trace, interrupted = _run(recipe, job, view, clock)
    clock["done"] = time.monotonic()
    if options.trace:
        from cold.cli.trace import write_trace

        write_trace(options.trace, recipe, job, trace)
    if options.json:
        print(as_json(task, recipe, job, found, clock, reverse))
    else:
        print(found.text if options.quiet else as_text(found, clock))
    return INTERRUPTED if interrupted else 0


def _unread(reverse: str) -> Partner:
    """No term reads the reverse model, so none is loaded."""
    asked = reverse not in ("auto", "none")
    return Partner(None, f"--reverse {reverse} changes nothing: this energy has no right-to-left term" if asked else "")


def _run(recipe: Recipe, job: Job, view: View, clock: dict[str, float]) -> tuple[Decoding, list[Info], bool]:
    trace: list[Info] = []
    rows, y, interrupted = seeds(recipe, job), None, False
    try:
        for state, info in job.decoder.chain(job.problems, rows):
            y = state.y
            trace.append(info)
            view.step(job.problems, state, info)
    except KeyboardInterrupt:
        if y is None:
            raise
        interrupted = True
        view.say(f"interrupted after {len(trace)} of {recipe.steps} steps; writing the best so far")
    if y is None:
        raise ColdError("the chain took no step")
    clock["sampled"] = time.monotonic()
    view.writing()
    return job.decoder.finish(job.problems, y, rows, trace)[0], trace, interrupted
