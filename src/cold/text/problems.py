"""Problems: a batch of examples with one energy, as every stage of the decoder sees them."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from cold.constraints.energy import Energy
from cold.errors import ColdError
from cold.lm.context import Context
from cold.lm.model import LanguageModel
from cold.lm.shortlist import Shortlisted
from cold.text.words import in_order, met


@dataclass(frozen=True)
class Example:
    """One example in words, for the stages that judge text."""

    left: str = ""  # what y follows in the story; not the style examples before it
    right: str = ""  # what follows y
    words: tuple[str, ...] = ()  # that y must contain; `wash|washes` is either of them
    ordered: bool = False  # whether they must come in this order
    avoid: tuple[str, ...] = ()  # words that y must not contain
    ending: str = ""  # that y should stay close to
    keywords: tuple[str, ...] = ()  # that y should rather contain than not
    key: str = ""  # its seeds come from here, where it is one of many

    def found(self, text: str) -> list[str]:
        """Those of the words that count: in their order, if it was asked for."""
        return in_order(text, self.words) if self.ordered else met(text, self.words)


@dataclass(frozen=True, eq=False)
class Problems:
    """`story` is where y is written: its LM starts, guards and completes y behind its left texts."""

    story: Context
    energy: Energy
    length: int
    examples: tuple[Example, ...]
    widen: tuple[tuple[int, ...], ...] = field(default=())  # per example: tokens added to every candidate set
    short: Problems | None = None  # the same over a shortlist of the tokens

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ColdError(f"the length is {self.length}: take at least 1 token")
        if self.story.lm.reverse:
            raise ColdError(f"model {self.lm.name!r} reads right to left: it can judge a text, but not write it")
        for context in self.energy.contexts:
            if context.lm.vocab != self.lm.vocab:
                raise ColdError(
                    f"{context.lm.name!r} has {context.lm.vocab} tokens and {self.lm.name!r} has {self.lm.vocab}: "
                    "one energy needs models with one vocabulary; train a partner for this one or leave it out"
                )

    @property
    def lm(self) -> LanguageModel:
        return self.story.lm

    @property
    def walked(self) -> Problems:
        """Those that the chain walks through: with fewer tokens, where there is a shortlist."""
        return self.short or self

    def whole(self, y: Tensor) -> Tensor:
        """A soft sequence of `walked` over all tokens; one that is not on the list is as unlikely as any on it."""
        lm = self.walked.lm
        if not isinstance(lm, Shortlisted):
            return y
        return y.amin(-1, keepdim=True).repeat(1, 1, self.lm.vocab).index_copy_(-1, lm.kept, y)
