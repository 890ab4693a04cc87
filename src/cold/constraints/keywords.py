"""Keywords: each word's log-probability at a softly chosen position, the pieces of a word kept together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cold.constraints.base import Constraint, Random, Readings
from cold.errors import ColdError
from cold.soft import SoftSequence


@dataclass(frozen=True, eq=False)
class Keywords(Constraint):
    """f = mean over words of sum_i w_i S_i, S_i the mean log-probability of the word's tokens from position i on.

    For words of one token this is n-gram similarity with n = 1. `sharpness` 1 is the softmax of the paper's matching;
    larger values look at the best place of each word alone, which keeps one keyword from spreading over the sentence.
    """

    words: Sequence[Sequence[Sequence[int]]]  # per example, per word: token ids
    name: str = "keywords"
    sharpness: float = 1.0

    def __post_init__(self) -> None:
        if not all(len(ids) for words in self.words for ids in words):
            raise ColdError(f"term {self.name!r}: a keyword is empty: give it at least one token")

    @property
    def examples(self) -> int:  # type: ignore[override]
        return len(self.words)

    def check(self, rows: int, length: int) -> None:
        for words in self.words:
            for ids in words:
                if len(ids) > length:
                    raise ColdError(
                        f"a keyword becomes {len(ids)} tokens but the sequence has {length}: "
                        f"raise the length to at least {len(ids)}"
                    )

    def score(self, y: SoftSequence, readings: Readings, random: Random) -> Tensor:
        samples = y.rows // len(self.words)
        scores = []
        for example, words in enumerate(self.words):
            log_probs = y.log_probs[example * samples : (example + 1) * samples]
            per_word = [self._word(log_probs, ids) for ids in words] or [log_probs.new_zeros(samples)]
            scores.append(torch.stack(per_word).mean(0))
        return torch.cat(scores)

    def _word(self, log_probs: Tensor, ids: Sequence[int]) -> Tensor:
        places = log_probs.shape[1] - len(ids) + 1
        together = torch.stack([log_probs[:, m : m + places, v] for m, v in enumerate(ids)]).mean(0)
        return ((self.sharpness * together).softmax(1) * together).sum(1)
