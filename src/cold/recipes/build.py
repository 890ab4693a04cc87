"""From a recipe's tables to contexts, an energy and a decoder: where names become parts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cold.constraints import (
    At,
    Classifier,
    Constraint,
    Count,
    Ends,
    Energy,
    Fluency,
    Function,
    Future,
    Keywords,
    Meaning,
    Probe,
    Similarity,
    mean,
    total,
    train_probe,
)
from cold.decoder import Decoder
from cold.errors import ColdError
from cold.lm.context import Context, inner_ids
from cold.lm.load import load_classifier
from cold.lm.model import LanguageModel
from cold.recipes.check import Table, call, find_function, take
from cold.recipes.recipe import Recipe
from cold.sampling import schedules
from cold.sampling.langevin import AdamLangevin, Langevin, Sampler
from cold.text import beam, complete, discretize, initialize, select
from cold.text.beam import TERMINATORS
from cold.text.problems import Example, Problems
from cold.text.reading import Likelihood
from cold.text.words import check_fits, content_words, form_ids, forms

TERMS: dict[str, type[Constraint]] = {
    "fluency": Fluency,
    "future": Future,
    "similarity": Similarity,
    "keywords": Keywords,
    "count": Count,
    "at": At,
    "ends": Ends,
    "meaning": Meaning,
    "probe": Probe,
    "classifier": Classifier,
}
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


def build(recipe: Recipe, lm: LanguageModel, reverse: LanguageModel | None, examples: Sequence[Example] = ()) -> Job:
    """Contexts, energy and decoder of a recipe, for its own texts or for other examples."""
    examples = tuple(examples) or (read_texts(recipe),)
    for example in examples:
        check_fits(lm, (*example.words, *example.keywords), recipe.length)
    maker = _Maker(recipe, lm, reverse, examples)
    energy, notes = maker.energy()
    problems = Problems(maker.story(), energy, recipe.length, examples, maker.widen())
    return Job(problems, maker.decoder(), notes)


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
        self.recipe, self.lm, self.examples = recipe, lm, examples
        self.models = {"lm": lm, "reverse": reverse}
        self.contexts: dict[str, Context | None] = {}
        for name, table in recipe.contexts.items():
            if not isinstance(table, dict):
                raise ColdError(f"{self._place(f'contexts.{name}')} is {table!r}: write it as a table of its own")
            self.contexts[name] = self._context(table, self._place(f"contexts.{name}"))

    def story(self) -> Context:
        found = next((c for c in self.contexts.values() if c is not None and not c.lm.reverse), None)
        return found or Context(self.lm, left=[example.left for example in self.examples])

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
            if kind == "similarity" and not any(self._ids(str(rest.get("target", "?")), e) for e in self.examples):
                notes.append(f"term {name!r} (weight {weight:g}) is left out: the texts have no keywords for it")
                continue
            energy = energy + weight * self._term(kind, rest, place)
        return energy, tuple(notes)

    def widen(self) -> tuple[tuple[int, ...], ...]:
        template = self.recipe.discretize.get("widen", "")
        if not isinstance(template, str) or not template:
            return ()
        return tuple(tuple(self._ids(template, example)) for example in self.examples)

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
                rest[side] = [self._fill(str(rest[side]), example, place) for example in self.examples]
        if "widen" in rest:
            rest["widen"] = [self._ids(str(rest["widen"]), example) for example in self.examples]
        return None if lm is None else call(Context, rest, place, lm=lm)

    def _term(self, kind: str, table: dict[str, Any], place: str) -> Constraint:
        if ":" in kind:
            function: Constraint = call(Function, table, place, function=find_function(kind, place))
            return function
        if kind not in TERMS:
            raise ColdError(f"{place}: there is no term {kind!r}: use {', '.join(TERMS)} or module:function")
        for key in ("context", "within"):
            if key in table and not isinstance(table[key], bool):
                if table[key] not in self.contexts:
                    raise ColdError(f"{place}: there is no context {table[key]!r}: name one under [contexts]")
                table[key] = self.contexts[table[key]]
        if "reduction" in table:
            if table["reduction"] not in REDUCTIONS:
                raise ColdError(f"{place}: reduction is {table['reduction']!r}: use sum or mean")
            table["reduction"] = REDUCTIONS[table["reduction"]]
        if kind in ("similarity", "meaning"):
            target = str(take(table, "target", place))
            table = {k: v for k, v in table.items() if k != "target"}
            table["targets"] = [self._ids(target, example) for example in self.examples]
        if kind == "keywords":
            words = take(table, "words", place)
            table["words"] = [[self._forms(w) for w in self._words(words, e, place)] for e in self.examples]
        if kind == "count":
            words = self._words(take(table, "words", place), self.examples[0], place)
            table["words"] = [ids for word in words for ids in form_ids(self.lm, word)]
        if kind == "at":
            table["word"] = self._word_at(str(take(table, "word", place)), table.get("place", 0))
        if kind == "ends":
            table["tokens"] = [n for n, text in enumerate(self.lm.token_strings) if text in TERMINATORS]
        if kind == "meaning":
            table["lm"] = self.lm
        if kind == "probe":
            probe = train_probe(self.lm, take(table, "examples", place), name=str(table.get("name", kind)))
            return probe.wants(str(table.get("label", probe.label)))
        if kind == "classifier":
            table["model"] = load_classifier(str(take(table, "model", place)), self.lm)
        term: Constraint = call(TERMS[kind], table, place)
        return term

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
            rest["texts"] = tuple(self._fill(str(take(rest, "text", place)), e, place) for e in self.examples)
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
        given = [_number(table.get(key, 0.0), f"{place}: {key}") for key in WEIGHED[1:]]
        rule = select.weighed(*given) if any(given) else RULES[name]
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

    # -- texts -----------------------------------------------------------------------------------------------

    def _fill(self, template: str, example: Example, place: str) -> str:
        style = list(self.recipe.style)
        known = {
            "left": example.left,
            "right": example.right,
            "ending": example.ending,
            "words": " ".join(forms(word)[0] for word in example.words),
            "keywords": " ".join(forms(word)[0] for word in example.keywords),
            "right_keywords": " ".join(content_words(example.right)),
            "style": "".join(f"{sentence}\n" for sentence in style),
        }
        try:
            return template.format_map(known)
        except (KeyError, ValueError, IndexError) as error:
            names = ", ".join("{" + name + "}" for name in known)
            raise ColdError(f"{place}: {template!r} has an unknown field ({error}): known are {names}") from error

    def _words(self, words: Any, example: Example, place: str) -> list[str]:
        if isinstance(words, list):
            return [str(word) for word in words]
        named = {"{words}": example.words, "{keywords}": example.keywords}
        return list(named[words]) if words in named else self._fill(str(words), example, place).split()

    def _forms(self, word: str) -> list[list[int]]:
        """Those that fit into the sequence."""
        return [ids for ids in form_ids(self.lm, word) if len(ids) <= self.recipe.length]

    def _word_at(self, word: str, place: int) -> list[int]:
        """At the start as it opens a line or follows a text, elsewhere behind a space."""
        left = self.story().left_texts[0]
        return inner_ids(self.lm, left, word) if place == 0 else self.lm.encode_after(" " + word)

    def _ids(self, template: str, example: Example) -> list[int]:
        text = self._fill(template, example, "target").strip()
        return self.lm.encode_after(" " + text) if text else []

    def _place(self, where: str) -> str:
        return f"{self.recipe.source}: {where}"


def _number(value: Any, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ColdError(f"{place} is {value!r}: give a number")
    return value
