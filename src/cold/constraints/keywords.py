"""Keywords: each word's log-probability at a softly chosen position, the pieces of a word kept together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from cold.constraints.base import Constraint, Random, Readings
from cold.errors import ColdError
from cold.soft import SoftSequence, expand, pad


@dataclass(frozen=True, eq=False)
class Keywords(Constraint):
    """f = mean over words of sum_i w_i S_i, S_i the mean log-probability of the word's tokens from position i on.

    For words of one token this is n-gram similarity with n = 1. `sharpness` 1 is the softmax of the paper's matching;
    larger values look at the best place of each word alone, which keeps one keyword from spreading over the sentence.
    """

    words: Sequence[Sequence[Sequence[int]]]  # per example, per word: token ids
    name: str = "keywords"
    sharpness: float = 1.0
    placed: dict[torch.device, tuple[Tensor, Tensor]] = field(default_factory=dict, init=False, repr=False)

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
        ids, there = (expand(part, y.rows) for part in self._padded(y.logits.device))  # [rows, words, tokens]
        index = ids.flatten(1)[:, None].expand(-1, y.length, -1)
        found = y.log_probs_of(index).view(y.rows, y.length, *ids.shape[1:])  # [rows, length, words, tokens]
        sizes = there.sum(-1)
        shifted = [F.pad(found[:, m:, :, m], (0, 0, 0, m)) * there[:, None, :, m] for m in range(ids.shape[2])]
        together = torch.stack(shifted).sum(0) / sizes.clamp(min=1)[:, None]  # a word that starts at each place
        at = torch.arange(y.length, device=ids.device)[:, None]
        late = at > y.length - sizes[:, None]  # no place for the whole word
        place = (self.sharpness * together).masked_fill(late, float("-inf")).softmax(1)
        per_word = (place * together.masked_fill(late, 0.0)).sum(1)
        real = sizes > 0
        return (per_word * real).sum(1) / real.sum(1).clamp(min=1)

    def _padded(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Token ids and where there is one [examples, words, tokens], put on the device once."""
        if device not in self.placed:
            most = max((len(words) for words in self.words), default=0)
            rows = [ids for words in self.words for ids in [*words, *[[]] * (max(most, 1) - len(words))]]
            ids, there = pad([list(ids) or [0] for ids in rows], device)
            there = there & torch.tensor([bool(ids) for ids in rows], device=device)[:, None]
            shape = (len(self.words), max(most, 1))
            self.placed[device] = ids.view(*shape, -1), there.float().view(*shape, -1)
        return self.placed[device]
