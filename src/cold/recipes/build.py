"""From a recipe's tables to contexts, an energy and a decoder: where names become parts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cold.constraints import Constraint, Energy, mean, total
from cold.decoder import Decoder
from cold.errors import ColdError
from cold.lm.context import Context
from cold.lm.model import LanguageModel
from cold.lm.shortlist import Shortlisted, shortlist
from cold.recipes.check import Table, call, take
from cold.recipes.recipe import Recipe
from cold.recipes.terms import Asked, make_term
from cold.recipes.texts import Texts
from cold.sampling import schedules
from cold.sampling.langevin import AdamLangevin, Langevin, Sampler
from cold.text import beam, complete, discretize, initialize, select
from cold.text.problems import Example, Problems
from cold.text.reading import Likelihood
from cold.text.words import check_fits, forms

STAGES: dict[str, dict[str, Callable[..., Any]]] = {
    "initialize": {
        "greedy": initialize.Greedy,
        "soft_unroll": initialize.SoftUnroll,
        "sampled": initialize.Sampled,
        "random": initialize.RandomLogits,
        "text": initialize.FromText,
    },
    "sampler": {"langevin": Langevin, "adam_langevin": AdamLangevin},
    "discretize": {"argmax": discretize.Argmax, "top_k": discretize.TopK, "beam": beam.Beam},
    "complete": {
        "greedy": complete.GreedyCompletion,
        "released": complete.ReleasedCompletion,
        "none": complete.NoCompletion,
    },
}
NOISE: dict[str, Callable[..., schedules.Schedule]] = {
    "staircase": schedules.staircase,
    "geometric": schedules.geometric,
    "constant": schedules.constant,
    "langevin": schedules.langevin_noise,
}
RULES: dict[str, select.Rule] = {
    "abductive": select.abductive,
    "counterfactual": select.counterfactual,
    "lexical": select.lexical,
    "energy": select.by_energy,
}
WEIGHED = ("weights", "agreement", "perplexity")
CHOICE = ("rule", "careful", *WEIGHED)
REDUCTIONS = {"sum": total, "mean": mean}


@dataclass(frozen=True, eq=False)
class Job:
    """A recipe made real for a batch of examples; `notes` says what had to be left out."""

    problems: Problems
    decoder: Decoder
    notes: tuple[str, ...]


def build(
    recipe: Recipe,
    lm: LanguageModel,
    reverse: LanguageModel | None,
    examples: Sequence[Example] = (),
    kept: Sequence[int] = (),
) -> Job:
    """Contexts, energy and decoder of a recipe, for its own texts or for other examples.

    `kept`: the shortlist of a run that these examples are a part of; made for them alone unless given.
    """
    examples = tuple(examples) or (read_texts(recipe),)
    for example in examples:
        check_fits(lm, (*example.words, *example.keywords), recipe.length)
    maker = _Maker(recipe, lm, reverse, examples)
    problems, notes = maker.problems()
    if kept := kept or listed(recipe, lm, examples):
        behind = None if reverse is None else Shortlisted.of(reverse, kept)
        short, _ = _Maker(recipe, Shortlisted.of(lm, kept), behind, examples).problems()
        problems = replace(problems, short=short)
    return Job(problems, maker.decoder(), notes)


def listed(recipe: Recipe, lm: LanguageModel, examples: Sequence[Example]) -> list[int]:
    """The tokens that the chain walks through, for all examples of a run; none where it walks through all."""
    if recipe.shortlist < 0:
        raise ColdError(f"the shortlist has {recipe.shortlist} tokens: give a number of them, or 0 for all")
    if not 0 < recipe.shortlist < lm.vocab:
        return []
    texts = ["\n".join(recipe.style), *(" ".join((e.left, e.right or e.ending)) for e in examples)]
    spoken = {form for e in examples for word in (*e.words, *e.keywords) for form in forms(word)}
    words = {*spoken, *map(str.capitalize, spoken), *_strings(recipe.terms), *_strings(recipe.contexts)}
    return shortlist(lm, recipe.shortlist, texts, words)


def _strings(table: Any) -> list[str]:
    """All texts in a table of a recipe."""
    if isinstance(table, str):
        return [table]
    inner = table.values() if isinstance(table, dict) else table if isinstance(table, list | tuple) else ()
    return [text for value in inner for text in _strings(value)]


def read_texts(recipe: Recipe) -> Example:
    """The example written in the recipe's own [texts]."""
    table = {k: tuple(v) if isinstance(v, list) else v for k, v in recipe.texts.items()}
    example: Example = call(Example, table, f"{recipe.source}: texts")
    return example


class _Maker:
    """Turns the tables of one recipe into parts; every error names its place in the file."""

    def __init__(
        self, recipe: Recipe, lm: LanguageModel, reverse: LanguageModel | None, examples: tuple[Example, ...]
    ) -> None:
        if reverse is not None and reverse.vocab != lm.vocab:
            raise ColdError(
                f"the reverse model {reverse.name!r} has {reverse.vocab} tokens and {lm.name!r} has {lm.vocab}: "
                "both must share one vocabulary; use --reverse none or train a partner"
            )
        if recipe.style and not any("{style}" in str(table) for table in recipe.contexts.values()):
            raise ColdError(f"{recipe.source} has no place for a style: no left text of its contexts holds {{style}}")
        self.recipe, self.texts = recipe, Texts(lm, examples, recipe.style, recipe.length)
        self.models = {"lm": lm, "reverse": reverse}
        self.contexts: dict[str, Context | None] = {}
        for name, table in recipe.contexts.items():
            if not isinstance(table, dict):
                raise ColdError(f"{self._place(f'contexts.{name}')} is {table!r}: write it as a table of its own")
            self.contexts[name] = self._context(table, self._place(f"contexts.{name}"))

    def problems(self) -> tuple[Problems, tuple[str, ...]]:
        """And notes of what had to be left out."""
        energy, notes = self.energy()
        return Problems(self.story(), energy, self.recipe.length, self.texts.examples, self.widen()), notes

    def story(self) -> Context:
        found = next((c for c in self.contexts.values() if c is not None and not c.lm.reverse), None)
        return found or Context(self.texts.lm, left=[example.left for example in self.texts.examples])

    def energy(self) -> tuple[Energy, tuple[str, ...]]:
        energy, notes = Energy(()), []
        for number, table in enumerate(self.recipe.terms):
            place = self._place(f"terms[{number}]")
            weight = _number(take(table, "weight", place), f"{place}: weight")
            rest = {k: v for k, v in table.items() if k not in ("weight", "kind")}
            kind = str(take(table, "kind", place))
            name = str(rest.get("name", kind))
            if any(self.contexts.get(str(rest.get(k)), self) is None for k in ("context", "within")):
                notes.append(f"term {name!r} (weight {weight:g}) is left out: there is no right-to-left model")
                continue
            if kind == "similarity" and not any(self.texts.ids(str(rest.get("target", "?")))):
                notes.append(f"term {name!r} (weight {weight:g}) is left out: the texts have no keywords for it")
                continue
            energy = energy + weight * self._term(kind, rest, place)
        return energy, tuple(notes)

    def widen(self) -> tuple[tuple[int, ...], ...]:
        template = self.recipe.discretize.get("widen", "")
        if not isinstance(template, str) or not template:
            return ()
        return tuple(map(tuple, self.texts.ids(template)))

    def decoder(self) -> Decoder:
        recipe = self.recipe
        if recipe.steps < 1 or recipe.samples < 1:
            what = "steps" if recipe.steps < 1 else "samples"
            raise ColdError(f"{getattr(recipe, what)} {what} were asked for: take at least 1")
        guard = {k: v for k, v in recipe.discretize.items() if k != "widen"}
        return Decoder(
            self._stage("initialize", recipe.initialize),
            self._sampler(),
            recipe.steps,
            self._stage("discretize", guard),
            self._stage("complete", recipe.complete),
            self._rule(recipe.select),
            self._weights(recipe.select),
        )

    # -- parts -----------------------------------------------------------------------------------------------

    def _context(self, table: Table, place: str) -> Context | None:
        role = table.get("model", "lm")
        if role not in self.models:
            raise ColdError(f"{place}: model is {role!r}: use lm or reverse")
        lm = self.models[role]
        rest = {k: v for k, v in table.items() if k != "model"}
        for side in ("left", "right"):
            if side in rest:
                rest[side] = self.texts.filled(str(rest[side]), place)
        if "widen" in rest:
            rest["widen"] = self.texts.ids(str(rest["widen"]))
        return None if lm is None else call(Context, rest, place, lm=lm)

    def _term(self, kind: str, table: dict[str, Any], place: str) -> Constraint:
        for key in ("context", "within"):
            if key in table and not isinstance(table[key], bool):
                if table[key] not in self.contexts:
                    raise ColdError(f"{place}: there is no context {table[key]!r}: name one under [contexts]")
                table[key] = self.contexts[table[key]]
        if "reduction" in table:
            if table["reduction"] not in REDUCTIONS:
                raise ColdError(f"{place}: reduction is {table['reduction']!r}: use sum or mean")
            table["reduction"] = REDUCTIONS[table["reduction"]]
        return make_term(kind, Asked(table, place, self.texts, self.story()))

    def _sampler(self) -> Sampler:
        place = self._place("sampler")
        table = dict(self.recipe.sampler)
        noise = take(table, "noise", place)
        if not isinstance(noise, dict):
            raise ColdError(f'{place}: noise is {noise!r}: write noise = {{ kind = "staircase" }}')
        noise = dict(noise)
        kind = noise.pop("kind", "staircase")
        if kind not in NOISE:
            raise ColdError(f"{place}.noise: there is no schedule {kind!r}: use {', '.join(NOISE)}")
        given: dict[str, Any] = {}
        if "steps" in inspect.signature(NOISE[kind]).parameters:
            given["steps"] = self.recipe.steps
        if kind == "langevin":
            given["step_size"] = take(table, "step_size", place)
        table["noise"] = call(NOISE[kind], noise, f"{place}.noise", **given)
        sampler: Sampler = self._stage("sampler", table)
        return sampler

    def _stage(self, stage: str, table: Table) -> Any:
        place = self._place(stage)
        kind = str(take(table, "kind", place))
        if kind not in STAGES[stage]:
            raise ColdError(f"{place}: there is no kind {kind!r}: use {', '.join(STAGES[stage])}")
        rest = {k: v for k, v in table.items() if k != "kind"}
        if kind == "text":
            rest["texts"] = tuple(self.texts.filled(str(take(rest, "text", place)), place))
            del rest["text"]
        return call(STAGES[stage][kind], rest, place)

    def _rule(self, table: Table) -> select.Rule:
        place = self._place("select")
        if wrong := [key for key in table if key not in CHOICE]:
            raise ColdError(f"{place}: there is no key {wrong[0]!r}: use {', '.join(CHOICE)}")
        name = take(table, "rule", place)
        if name not in RULES:
            raise ColdError(f"{place}: there is no selection rule {name!r}: use {', '.join(RULES)}")
        if name != "energy" and (wrong := [key for key in WEIGHED if key in table]):
            raise ColdError(f'{place}: {wrong[0]} is for rule = "energy", and the rule is {name!r}')
        agreement, alone = (_number(table.get(key, 0.0), f"{place}: {key}") for key in ("agreement", "perplexity"))
        rule = select.weighed(agreement, alone) if agreement or alone else RULES[name]
        return select.careful(rule) if table.get("careful") else rule

    def _weights(self, table: Table) -> dict[str, float] | None:
        place = f"{self._place('select')}.weights"
        if "weights" not in table:
            return None
        if not isinstance(table["weights"], dict):
            raise ColdError(f"{place} is {table['weights']!r}: write weights = {{ own = 1.0 }}")
        known = [*Likelihood._fields, *self.recipe.term_names]
        if wrong := [name for name in table["weights"] if name not in known]:
            raise ColdError(f"{place}: there is no term {wrong[0]!r}: there are {', '.join(known)}")
        return {name: _number(weight, place) for name, weight in table["weights"].items()}

    def _place(self, where: str) -> str:
        return f"{self.recipe.source}: {where}"


def _number(value: Any, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ColdError(f"{place} is {value!r}: give a number")
    return value
