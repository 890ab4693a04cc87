"""Commands and options, with help that teaches. Nothing heavy is imported before a command runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from cold.errors import ColdError

app = typer.Typer(
    name="cold",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Write text under constraints with a language model, by COLD decoding.

    You say what a text must be (contain these words, lead from this sentence to that one, stay close to another);
    `cold` samples from the energy that says so and picks the best of several samples.

    Start with:  cold models get smollm2   then:  cold lexical dog park ball
    """,
)


@dataclass(frozen=True)
class Options:
    """What all decoding commands share; None leaves the preset's choice."""

    model: str | None = None
    reverse: str | None = None
    samples: int | None = None
    steps: int | None = None
    length: int | None = None
    top_k: int | None = None
    seed: int | None = None
    style: list[str] | None = None
    device: str = "auto"
    json: bool = False
    trace: Path | None = None
    quiet: bool = False

    def changes(self) -> dict[str, Any]:
        names = ("model", "reverse", "samples", "steps", "length", "top_k", "seed", "style")
        return {name: getattr(self, name) for name in names if getattr(self, name) not in (None, [])}


Model = Annotated[str | None, typer.Option(help="smollm2, a hub id, a folder or a .gguf file.")]
Reverse = Annotated[str | None, typer.Option(help="A right-to-left LM with the same vocabulary, or none.")]
Preset = Annotated[str, typer.Option(help="fast (default), released or paper; see `cold presets`.")]
Samples = Annotated[int | None, typer.Option(help="How many texts to draw; the best is shown first.")]
Steps = Annotated[int | None, typer.Option(help="Langevin steps.")]
Length = Annotated[int | None, typer.Option(help="Soft tokens; the LM completes the sentence behind them.")]
TopK = Annotated[int | None, typer.Option(help="How many of the LM's tokens may be chosen from at each position.")]
Seed = Annotated[int | None, typer.Option(help="The same seed gives the same texts.")]
Style = Annotated[list[str] | None, typer.Option(help="An example sentence that sets the voice; may be repeated.")]
Device = Annotated[str, typer.Option(help="cpu, cuda or auto.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else on stdout.")]
Trace = Annotated[Path | None, typer.Option(help="Write the energy over the steps to FILE.json or FILE.png.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the best text alone; no progress.")]


@app.command()
def lexical(
    words: Annotated[list[str], typer.Argument(metavar="WORD...", help="Words, or quoted phrases.")] = [],  # noqa: B006
    model: Model = None,
    reverse: Reverse = None,
    preset: Preset = "fast",
    samples: Samples = None,
    steps: Steps = None,
    length: Length = None,
    top_k: TopK = None,
    seed: Seed = None,
    style: Style = None,
    device: Device = "auto",
    json: Json = False,
    trace: Trace = None,
    quiet: Quiet = False,
) -> int:
    """Write a sentence that contains the given words.

    Example:  cold lexical hand sink soap wash
    """
    options = Options(model, reverse, samples, steps, length, top_k, seed, style, device, json, trace, quiet)
    return _task("lexical", {"words": words}, preset, options)


@app.command()
def abductive(
    left: Annotated[str, typer.Option(help="The sentence before.")],
    right: Annotated[str, typer.Option(help="The sentence after.")],
    model: Model = None,
    reverse: Reverse = None,
    preset: Preset = "fast",
    samples: Samples = None,
    steps: Steps = None,
    length: Length = None,
    top_k: TopK = None,
    seed: Seed = None,
    style: Style = None,
    device: Device = "auto",
    json: Json = False,
    trace: Trace = None,
    quiet: Quiet = False,
) -> int:
    """Write the sentence between two others.

    Example:  cold abductive --left "Arnold was scared of cats." --right "Arnold dumped his girlfriend."
    """
    options = Options(model, reverse, samples, steps, length, top_k, seed, style, device, json, trace, quiet)
    return _task("abductive", {"left": left, "right": right}, preset, options)


@app.command()
def counterfactual(
    context: Annotated[str, typer.Option(help="The story so far, with the changed premise.")],
    ending: Annotated[str, typer.Option(help="The old ending, to be changed as little as needed.")],
    model: Model = None,
    reverse: Reverse = None,
    preset: Preset = "fast",
    samples: Samples = None,
    steps: Steps = None,
    length: Length = None,
    top_k: TopK = None,
    seed: Seed = None,
    style: Style = None,
    device: Device = "auto",
    json: Json = False,
    trace: Trace = None,
    quiet: Quiet = False,
) -> int:
    """Rewrite an ending so that it fits a changed story.

    Example:  cold counterfactual --context "Jon went to the pawn store. He sold some antiques."
    --ending "He bought it for three thousand dollars."
    """
    options = Options(model, reverse, samples, steps, length, top_k, seed, style, device, json, trace, quiet)
    return _task("counterfactual", {"context": context, "ending": ending}, preset, options)


@app.command()
def sample(
    energy: Annotated[Path, typer.Argument(metavar="ENERGY.toml", help="An energy file; see examples/.")],
    model: Model = None,
    reverse: Reverse = None,
    samples: Samples = None,
    steps: Steps = None,
    length: Length = None,
    top_k: TopK = None,
    seed: Seed = None,
    style: Style = None,
    device: Device = "auto",
    json: Json = False,
    trace: Trace = None,
    quiet: Quiet = False,
) -> int:
    """Sample from any energy that is written in a TOML file.

    A term may name a Python function as module:function; `cold presets show NAME` prints files to start from.
    """
    from cold.cli.decode import decode, sample_recipe

    options = Options(model, reverse, samples, steps, length, top_k, seed, style, device, json, trace, quiet)
    recipe, example = sample_recipe(energy)
    return decode("sample", recipe, example, options)


models = typer.Typer(help="List the models known by name, or fetch one.", invoke_without_command=True)
presets = typer.Typer(help="List the presets, or show one as an energy file.", invoke_without_command=True)
app.add_typer(models, name="models")
app.add_typer(presets, name="presets")


@models.callback()
def list_models(context: typer.Context) -> None:
    """List the models known by name, and whether they are here. Hub ids, folders and .gguf files work too."""
    if context.invoked_subcommand is None:
        from cold.lm import catalog

        for name, known in catalog.KNOWN.items():
            where = catalog.find(name)
            typer.echo(f"{name:10} {known.parameters} parameters, {known.licence}. {known.about}")
            typer.echo(f"{'':10} " + (f"here: {where}" if where else f"not here: cold models get {name}"))


@models.command("get")
def get_model(name: Annotated[str, typer.Argument(help="A name that `cold models` lists.")]) -> None:
    """Fetch a known model once: download, check, convert, keep in the cache folder."""
    from cold.lm import catalog

    catalog.get(name, say=typer.echo)


@presets.callback()
def list_presets(context: typer.Context) -> None:
    """List the presets: fast is the default, paper is the paper's text, released is the published code."""
    if context.invoked_subcommand is None:
        from cold.recipes.recipe import Recipe, preset_text
        from cold.recipes.recipe import presets as names

        for name in names():
            typer.echo(f"{name:24} {Recipe.parse(preset_text(name), name).about}")


@presets.command("show")
def show_preset(name: Annotated[str, typer.Argument(help="For example lexical-fast.")]) -> None:
    """Print a preset as TOML that `cold sample` runs."""
    from cold.recipes.recipe import preset_text

    typer.echo(preset_text(name), nl=False)


def _task(task: str, texts: dict[str, Any], preset: str, options: Options) -> int:
    from cold.cli.decode import decode, task_recipe

    recipe, example = task_recipe(task, texts, preset)
    return decode(task, recipe, example, options)


def command() -> Any:
    """The parser, ready to run."""
    return typer.main.get_command(app)


def check_trace(trace: Path | None) -> None:
    """Say now, not after the run, that a trace cannot be written."""
    if trace is None:
        return
    if trace.suffix not in (".json", ".png"):
        raise ColdError(f"--trace {trace}: the file must end in .json or .png")
    if not trace.parent.is_dir():
        raise ColdError(f"--trace {trace}: there is no folder {trace.parent}: make it first")
