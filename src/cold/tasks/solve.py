"""Decode examples with a recipe, or sample from an energy of one's own: the calls that the README shows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from cold.constraints.energy import Energy
from cold.decoder import Decoder, Decoding
from cold.errors import ColdError
from cold.lm.load import load
from cold.lm.model import LanguageModel
from cold.lm.partner import find_partner
from cold.recipes import Job, Recipe, build, preset
from cold.sampling import AdamLangevin
from cold.sampling.noise import row_seed
from cold.sampling.schedules import staircase
from cold.tasks import examples
from cold.text import complete, discretize, initialize, select
from cold.text.problems import Example, Problems


def lexical(
    words: Sequence[str],
    lm: LanguageModel | str = "smollm2",
    name: str = "fast",
    avoid: Sequence[str] = (),
    inflections: bool = False,
    ordered: bool = False,
    **changes: Any,
) -> Decoding:
    """A sentence with the given words, `a|b` being either. `changes`: samples, steps, length, top_k, seed, style."""
    return _solve("lexical", examples.lexical(words, avoid, inflections, ordered), lm, name, changes)


def abductive(
    left: str, right: str, lm: LanguageModel | str = "smollm2", name: str = "fast", **changes: Any
) -> Decoding:
    """A sentence that leads from `left` to `right`."""
    return _solve("abductive", examples.abductive(left, right), lm, name, changes)


def counterfactual(
    context: str, ending: str, lm: LanguageModel | str = "smollm2", name: str = "fast", **changes: Any
) -> Decoding:
    """`ending` rewritten so that it fits `context`."""
    return _solve("counterfactual", examples.counterfactual(context, ending), lm, name, changes)


def decode(
    recipe: Recipe,
    lm: LanguageModel,
    reverse: LanguageModel | None,
    batch: Sequence[Example],
    kept: Sequence[int] = (),
) -> list[Decoding]:
    """Decode a batch of examples with one recipe; `kept`: the shortlist of the run that the batch is a part of."""
    job = build(recipe, lm, reverse, batch, kept)
    for note in job.notes:
        warnings.warn(note, stacklevel=2)
    return job.decoder(job.problems, seeds(recipe, job))


def seeds(recipe: Recipe, job: Job) -> list[int]:
    """One seed per row; an example's i-th sample is the same whatever else is asked for."""
    return [row_seed(recipe.seed, i, one.key) for one in job.problems.examples for i in range(recipe.samples)]


def sample(energy: Energy, length: int = 12, samples: int = 4, steps: int = 100, seed: int = 0) -> Decoding:
    """Sample texts from an energy of your own: Langevin steps, top-k guarded discretization, completion, best energy.

    For other stages build a `Decoder`; the first left-to-right context of the energy is where the text is written.
    """
    story = next((context for context in energy.contexts if not context.lm.reverse), None)
    if story is None:
        raise ColdError("the energy reads no left-to-right model, so nobody can write: add a Fluency(Context(lm, ...))")
    decoder = Decoder(
        initialize.Sampled(),
        AdamLangevin(0.2, staircase(max(steps, 1), scale=0.3)),
        steps,
        discretize.TopK(5),
        complete.GreedyCompletion(no_repeat=3),
        select.by_energy,
    )
    problems = Problems(story, energy, length, (Example(),) * story.examples)
    return decoder(problems, [row_seed(seed, i) for i in range(samples)] * story.examples)[0]


def _solve(task: str, example: Example, lm: LanguageModel | str, name: str, changes: dict[str, Any]) -> Decoding:
    wish = changes.pop("reverse", "auto")
    recipe = preset(task, name).with_(**changes)
    writer = load(lm) if isinstance(lm, str) else lm
    backward, _ = find_partner(writer, wish if recipe.reads_reverse else None)
    return decode(recipe, writer, backward, [example])[0]
