"""A recipe: models, texts, an energy and the stages of the decoder, all in one TOML file that can be run."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any

from cold.errors import ColdError
from cold.recipes.check import Table, call

DEFAULTS: dict[str, Any] = {  # what a short energy file need not say
    "texts": {},
    "initialize": {"kind": "greedy"},
    "sampler": {"kind": "adam_langevin", "step_size": 0.2, "noise": {"kind": "staircase", "scale": 0.3}},
    "discretize": {"kind": "top_k", "k": 5},
    "complete": {"kind": "greedy", "no_repeat": 3},
    "select": {"rule": "energy"},
}


@dataclass(frozen=True)
class Recipe:
    """The tables of a recipe file. Texts may hold {left}, {right}, {words}, {ending}, {keywords} or {style}."""

    contexts: Table
    terms: Sequence[Table]
    sampler: Table
    initialize: Table
    discretize: Table
    complete: Table
    select: Table
    texts: Table
    about: str = ""
    model: str = "smollm2"
    reverse: str = "auto"
    samples: int = 4
    steps: int = 100
    length: int = 12
    seed: int = 0
    shortlist: int = 0  # the chain walks through so many tokens that the LM expects here, and the texts' own; 0: all
    style: Sequence[str] = ()
    source: str = "recipe"

    @classmethod
    def parse(cls, text: str, source: str) -> Recipe:
        try:
            tables = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ColdError(f"{source} is not valid TOML: {error}") from error
        for stage, default in DEFAULTS.items():
            tables.setdefault(stage, default)
        recipe: Recipe = call(cls, tables, source, source=source)
        return recipe

    @classmethod
    def read(cls, path: Path) -> Recipe:
        try:
            return cls.parse(path.read_text(encoding="utf-8"), path.name)
        except (OSError, UnicodeDecodeError) as error:
            raise ColdError(f"{path} cannot be read ({error}): check the path; it must be a text file") from error

    def with_(self, **changes: Any) -> Recipe:
        """The same recipe with other numbers; None changes nothing. `top_k` goes to every part that has one."""
        top_k = changes.pop("top_k", None)
        recipe = replace(self, **{key: value for key, value in changes.items() if value is not None})
        if top_k is None:
            return recipe
        if top_k < 1:
            raise ColdError(f"top-k is {top_k}: let the LM offer at least 1 token")
        slot = {"top_k": "k", "beam": "top"}.get(recipe.discretize.get("kind", ""))
        guard = {**recipe.discretize, slot: top_k} if slot else recipe.discretize
        contexts = {n: {**c, "top_k": top_k} if c.get("top_k") else c for n, c in recipe.contexts.items()}
        return replace(recipe, discretize=guard, contexts=contexts)

    @property
    def term_names(self) -> list[str]:
        """Each term's own name, or its kind."""
        return [str(term.get("name") or term["kind"]) for term in self.terms]

    def without(self, names: Sequence[str]) -> Recipe:
        """The recipe without the terms of these names, for an ablation."""
        known = self.term_names
        for name in names:
            if name not in known:
                raise ColdError(f"{self.source} has no term {name!r}: it has {', '.join(known)}")
        weights = {name: w for name, w in dict(self.select.get("weights", {})).items() if name not in names}
        choice = {key: value for key, value in self.select.items() if key != "weights"}
        choice |= {"weights": weights} if weights else {}
        terms = [t for t, name in zip(self.terms, known, strict=True) if name not in names]
        return replace(self, terms=terms, select=choice)

    @property
    def reads_reverse(self) -> bool:
        """Whether a context asks for the right-to-left model."""
        return any(isinstance(table, dict) and table.get("model") == "reverse" for table in self.contexts.values())

    def tables(self) -> dict[str, Any]:
        """Everything that decides the result, for reports."""
        return {
            field.name: getattr(self, field.name) for field in fields(self) if field.name not in ("about", "source")
        }


def preset(task: str, name: str) -> Recipe:
    """One of the recipes that come with the package."""
    wanted = f"{task}-{name}"
    if wanted not in presets():
        raise ColdError(f"there is no preset {name!r} for {task}: there are {', '.join(presets())}")
    return Recipe.parse(preset_text(wanted), f"preset {wanted}")


def presets() -> list[str]:
    return sorted(file.name.removesuffix(".toml") for file in _presets().iterdir() if file.name.endswith(".toml"))


def preset_text(name: str) -> str:
    if name not in presets():
        raise ColdError(f"there is no preset {name!r}: there are {', '.join(presets())}")
    return str((_presets() / f"{name}.toml").read_text(encoding="utf-8"))


def _presets() -> Any:
    return resources.files("cold") / "presets"
