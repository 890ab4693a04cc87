"""A baseline writes one text per row; what it writes is judged and selected as our own texts are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cold.baselines.proposals import MaskedModel
from cold.decoder import Decoding
from cold.lm.model import LanguageModel
from cold.recipes import Recipe, build
from cold.tasks.solve import seeds
from cold.text.problems import Example, Problems

# Problems, the right-to-left LM if there is one, a seed per row (an example's samples side by side) -> a text per row.
Writer = Callable[[Problems, LanguageModel | None, Sequence[int]], list[str]]


@dataclass(frozen=True)
class Baseline:
    """Another decoder behind the call that ours has. `single`: it always writes the same, so one sample will do."""

    write: Writer
    single: bool = False
    reads_reverse: bool = False

    @property
    def asks_masked(self) -> bool:
        """Whether a masked LM may tell it what fits a gap."""
        return hasattr(self.write, "masked")

    def with_masked(self, masked: MaskedModel) -> Baseline:
        """The same with a masked LM to ask, which takes the part of the right-to-left LM."""
        write: Any = self.write
        return replace(self, write=replace(write, masked=masked), reads_reverse=False)

    def __call__(
        self, recipe: Recipe, lm: LanguageModel, reverse: LanguageModel | None, batch: Sequence[Example]
    ) -> list[Decoding]:
        recipe = recipe.with_(samples=1) if self.single else recipe
        job = build(recipe, lm, reverse, batch)
        rows = seeds(recipe, job)
        return job.decoder.judge(job.problems, self.write(job.problems, reverse, rows), rows)
