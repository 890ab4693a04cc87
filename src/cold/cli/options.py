"""What all decoding commands share, with help that teaches. Nothing heavy is imported here."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from cold.errors import ColdError


@dataclass(frozen=True)
class Options:
    """What all decoding commands share; None leaves the choice to the preset or the file."""

    model: Annotated[str | None, typer.Option(help="mini, smollm2, a hub id, a folder or a .gguf file.")] = None
    reverse: Annotated[
        str | None,
        typer.Option(
            help="The right-to-left LM: auto (mini-reverse, if it fits), none, or one of the same vocabulary."
        ),
    ] = None
    samples: Annotated[int | None, typer.Option(help="How many texts to draw; the best is shown first.")] = None
    steps: Annotated[int | None, typer.Option(help="Langevin steps.")] = None
    length: Annotated[int | None, typer.Option(help="Soft tokens; the LM completes the sentence behind them.")] = None
    top_k: Annotated[int | None, typer.Option(help="How many of the LM's tokens may stand at a position.")] = None
    shortlist: Annotated[
        int | None,
        typer.Option(
            help="How many tokens the sampler considers, those that the LM expects here; 0: all. Fewer are faster."
        ),
    ] = None
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same texts.")] = None
    style: Annotated[list[str] | None, typer.Option(help="An example sentence that sets the voice; repeatable.")] = None
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "auto"
    dtype: Annotated[
        str, typer.Option(help="Of the LM: float32, bfloat16, float16; auto: bfloat16 on a GPU, else float32.")
    ] = "auto"
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else on stdout.")] = False
    trace: Annotated[Path | None, typer.Option(help="Write the terms over the steps to FILE.json or FILE.png.")] = None
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the best text alone; no progress.")] = False

    def changes(self) -> dict[str, Any]:
        names = ("model", "reverse", "samples", "steps", "length", "top_k", "shortlist", "seed", "style")
        return {name: getattr(self, name) for name in names if getattr(self, name) not in (None, [])}


def decoding(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the shared options; it receives them as its last argument, `options`."""
    hints = get_type_hints(Options, include_extras=True)
    own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "options"]
    shared = [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])
        for f in fields(Options)
    ]

    def wrapper(**given: Any) -> int:
        options = Options(**{parameter.name: given.pop(parameter.name) for parameter in shared})
        return command(**given, options=options)

    wrapper.__name__, wrapper.__doc__ = command.__name__, command.__doc__
    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + shared
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapper


def check_trace(trace: Path | None) -> None:
    """Say now, not after the run, that a trace cannot be written."""
    if trace is None:
        return
    if trace.suffix not in (".json", ".png"):
        raise ColdError(f"--trace {trace}: the file must end in .json or .png")
    if not trace.parent.is_dir():
        raise ColdError(f"--trace {trace}: there is no folder {trace.parent}: make it first")
