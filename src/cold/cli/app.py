"""Commands and options, with help that teaches. Nothing heavy is imported before a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cold.cli.options import Options, decoding

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

    \b
    Start with:   cold lexical dog park ball --model mini
    Then better:  cold models get smollm2; cold lexical dog park ball
    """,
)


Words = Annotated[list[str] | None, typer.Argument(metavar="WORD...", help="Words, quoted phrases, 'wash|washes'.")]
Preset = Annotated[str, typer.Option(help="fast, released or paper; see `cold presets`.")]


@app.command()
@decoding
def lexical(
    options: Options,
    words: Words = None,
    avoid: Annotated[list[str] | None, typer.Option(help="A word that must not come; repeatable.")] = None,
    inflections: Annotated[
        bool, typer.Option("--inflections", help="Any form of a word will do: wash, washes, washed, washing.")
    ] = False,
    ordered: Annotated[
        bool, typer.Option("--in-order", help="The words come in the order in which they are given.")
    ] = False,
    preset: Preset = "fast",
) -> int:
    """Write a sentence that contains the given words.

    \b
    Examples:  cold lexical hand sink soap wash
               cold lexical hand sink soap wash --inflections --avoid I
               cold lexical "red shoes" "buy|bought"
               cold lexical dog door run --in-order
    """
    texts = {"words": words or [], "avoid": avoid or [], "inflections": inflections, "ordered": ordered}
    return _task("lexical", texts, preset, options)


@app.command()
@decoding
def abductive(
    options: Options,
    left: Annotated[str, typer.Option(help="The sentence before.")],
    right: Annotated[str, typer.Option(help="The sentence after.")],
    preset: Preset = "fast",
) -> int:
    """Write the sentence between two others.

    Example:  cold abductive --left "Arnold was scared of cats." --right "Arnold dumped his girlfriend."
    """
    return _task("abductive", {"left": left, "right": right}, preset, options)


@app.command()
@decoding
def counterfactual(
    options: Options,
    context: Annotated[str, typer.Option(help="The story so far, with the changed premise.")],
    ending: Annotated[str, typer.Option(help="The old ending, to be changed as little as needed.")],
    preset: Preset = "fast",
) -> int:
    """Rewrite an ending so that it fits a changed story.

    Example:  cold counterfactual --context "Jon went to the pawn store. He sold some antiques."
    --ending "He bought it for three thousand dollars."
    """
    return _task("counterfactual", {"context": context, "ending": ending}, preset, options)


@app.command()
@decoding
def sample(
    options: Options, energy: Annotated[Path, typer.Argument(metavar="ENERGY.toml", help="An energy; see examples/.")]
) -> int:
    """Sample from any energy that is written in a TOML file.

    A term may name a Python function as module:function; `cold presets show NAME` prints files to start from.
    """
    from cold.cli.decode import decode, sample_recipe

    recipe, example = sample_recipe(energy)
    return decode("sample", recipe, example, options)


@app.command()
@decoding
def run(
    options: Options,
    task: Annotated[str, typer.Argument(help="abductive, counterfactual or lexical.")],
    out: Annotated[Path, typer.Option(help="The run file; if it is there, the run goes on with what is missing.")],
    data: Annotated[
        Path | None, typer.Option(help="aNLG, TimeTravel, CommonGen or JSON lines of your own; none: a few of ours.")
    ] = None,
    method: Annotated[
        str, typer.Option(help="cold, or another decoder: left-only, left-only-greedy ...; see docs/baselines.md.")
    ] = "cold",
    masked: Annotated[
        str | None,
        typer.Option(
            help="With cgmh, tsmh or mix-and-match: the masked LM that says what fits a gap (mini-masked for smollm2, "
            "a folder or a hub id, of the vocabulary of --model); none: the LMs of both directions together."
        ),
    ] = None,
    preset: Preset = "fast",
    without: Annotated[list[str] | None, typer.Option(help="Leave this term of the energy out; repeatable.")] = None,
    split: Annotated[
        str, typer.Option(help="tune (a quarter of the file, by a hash of the id), report or all.")
    ] = "all",
    limit: Annotated[int | None, typer.Option(help="At most so many examples.")] = None,
    spread: Annotated[
        bool, typer.Option("--spread", help="With --limit: from all over the file, by a hash of the id.")
    ] = False,
) -> int:
    """Decode every example of a file into RUN.jsonl, resumably.

    Example:  cold run lexical --model mini --out run.jsonl

    Each example is written as soon as its batch is done. Stopped in any way, the same command goes on from there.
    `cold eval` scores run files, `cold report` makes a page of one.
    """
    from cold.cli.runs import Data, run_file

    return run_file(task, Data(data, split, limit, spread), method, preset, without or [], out, options, masked)


Judge = Annotated[str, typer.Option(help="The LM whose perplexity is reported: any --model, or none.")]
Encoder = Annotated[str, typer.Option(help="For BERTScore: auto (if it is installed), a folder, a hub id, or none.")]


@app.command("eval")
def eval_runs(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN.jsonl...", help="Files that `cold run` wrote.")],
    judge: Judge = "mini",
    encoder: Encoder = "auto",
    out: Annotated[Path | None, typer.Option("--json", help="Write the numbers to this file as well.")] = None,
) -> int:
    """Score run files: BLEU, ROUGE-L, CIDEr, BERTScore, edits or coverage, repetition, diversity, perplexity.

    Every number has a 95 % bootstrap interval. Two runs over the same examples are also compared, example by example.
    """
    from cold.cli.evaluate import evaluate_files

    return evaluate_files(runs, judge, encoder, out)


@app.command()
def report(
    run: Annotated[Path, typer.Argument(metavar="RUN.jsonl", help="A file that `cold run` wrote.")],
    out: Annotated[Path | None, typer.Option(help="The page; RUN.html unless given.")] = None,
    judge: Judge = "mini",
    encoder: Encoder = "auto",
) -> int:
    """Make one page of a run, to look at: metrics, distributions, every example with all its samples and its trace.

    The page needs no network and no other file.
    """
    from cold.cli.evaluate import report_file

    return report_file(run, out or run.with_suffix(".html"), judge, encoder)


@app.command()
def tables(
    runs: Annotated[
        list[Path] | None, typer.Argument(metavar="[RUN.jsonl...]", help="Files that `cold run` wrote, of any task.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for tables.md, a CSV and a picture of each table.")] = Path(
        "tables"
    ),
    run: Annotated[
        Path | None, typer.Option(help="Also make every run of the tables in this folder, or go on with it.")
    ] = None,
    abductive: Annotated[Path | None, typer.Option(help="With --run: aNLG's file; none: a few of ours.")] = None,
    counterfactual: Annotated[Path | None, typer.Option(help="With --run: TimeTravel's file.")] = None,
    lexical: Annotated[Path | None, typer.Option(help="With --run: CommonGen's file.")] = None,
    limit: Annotated[int, typer.Option(help="With --run: examples of a run, from all over the split report.")] = 200,
    few: Annotated[int, typer.Option(help="With --run: examples of the presets that take 2,000 steps.")] = 50,
    samples: Annotated[int, typer.Option(help="With --run: texts of an example.")] = 16,
    steps: Annotated[int | None, typer.Option(help="With --run: fewer Langevin steps, to try it out.")] = None,
    model: Annotated[str | None, typer.Option(help="With --run: the LM.")] = None,
    judge: Judge = "mini",
    encoder: Encoder = "auto",
) -> int:
    """The paper's tables with its numbers beside ours; what has not been run leaves a gap.

    \b
    Examples:  cold tables runs/*.jsonl --out tables
               cold tables --run runs --abductive dev.json --lexical commongen.dev.jsonl

    With --run it makes what is missing first: every method, the constraint and the top-k ablation, resumably. That is a
    matter of hours on a GPU; --limit, --few, --steps and --model mini make it small.
    """
    from cold.cli.evaluate import make_runs, write_tables

    files = list(runs or [])
    if run is not None:
        options = Options(model=model, samples=samples, steps=steps)
        data = {"abductive": abductive, "counterfactual": counterfactual, "lexical": lexical}
        made, stopped = make_runs(run, data, limit, few, options)
        if stopped:
            return stopped
        files += made
    return write_tables(files, out, judge, encoder)


models = typer.Typer(help="List the models known by name, or fetch one.", invoke_without_command=True)
presets = typer.Typer(help="List the presets, or show one as an energy file.", invoke_without_command=True)
app.add_typer(models, name="models")
app.add_typer(presets, name="presets")


@models.callback()
def list_models(context: typer.Context) -> None:
    """List the models known by name, and whether they are here. Hub ids, folders and .gguf files work too."""
    if context.invoked_subcommand is None:
        from cold.lm import bundled, catalog

        for name in bundled.names():
            typer.echo(f"{name:13} {bundled.about(name)}")
            typer.echo(f"{'':13} here: it comes with the package")
        for name, known in catalog.KNOWN.items():
            where = catalog.find(name)
            typer.echo(f"{name:13} {known.parameters} parameters, {known.licence}. {known.about}")
            typer.echo(f"{'':13} " + (f"here: {where}" if where else f"not here: cold models get {name}"))


@models.command("get")
def get_model(name: Annotated[str, typer.Argument(help="A name that `cold models` lists.")]) -> None:
    """Fetch a known model once: download, check, convert, keep in the cache folder."""
    from cold.lm import bundled, catalog

    if name in bundled.names():
        typer.echo(f"{name} comes with the package: nothing to fetch")
    else:
        catalog.get(name, say=typer.echo)


@models.command("export")
def export_model(
    name: Annotated[str, typer.Argument(help="Any model that --model takes, such as mini.")],
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
) -> None:
    """Write a model as an ordinary Hugging Face folder, for `AutoModelForCausalLM.from_pretrained`."""
    from cold.lm.load import load, save

    save(load(name, device="cpu"), folder)
    typer.echo(f"{name} is now in {folder}")


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
