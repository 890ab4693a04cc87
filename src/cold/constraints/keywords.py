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

Word = Sequence[int] | Sequence[Sequence[int]]


@dataclass(frozen=True, eq=False)
class Keywords(Constraint):
    """f = mean over words of sum_i w_i S_i, S_i the mean log-probability of the word's tokens from position i on.

    For words of one token this is n-gram similarity with n = 1. `sharpness` 1 is the softmax of the paper's matching;
    larger values look at the best place of each word alone, which keeps one keyword from spreading over the sentence.
    A word of several forms is matched in any: i then runs over positions and forms.
    """

    words: Sequence[Sequence[Word]]  # per example, per word: token ids, or those of each of its forms
    name: str = "keywords"
    sharpness: float = 1.0
    placed: dict[torch.device, tuple[Tensor, Tensor]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if not all(len(ids) for words in self.forms for word in words for ids in word):
            raise ColdError(f"term {self.name!r}: a keyword is empty: give it at least one token")

    @property
    def examples(self) -> int:  # type: ignore[override]
        return len(self.words)

    @property
    def forms(self) -> list[list[list[list[int]]]]:
        """Per example, per word, per form: token ids."""
        return [[_forms(word) for word in words] for words in self.words]

    def check(self, rows: int, length: int) -> None:
        for words in self.forms:
            for word in words:
                size = min(map(len, word))
                if size > length:
                    raise ColdError(
                        f"a keyword becomes {size} tokens but the sequence has {length}: "
                        f"raise the length to at least {size}"
                    )

    def score(self, y: SoftSequence, readings: Readings, random: Random) -> Tensor:
        ids, there = (expand(part, y.rows) for part in self._padded(y.logits.device))  # [rows, words, forms, tokens]
        shape, index = ids.shape[1:3], ids.flatten(1)[:, None].expand(-1, y.length, -1)
        found = y.log_probs_of(index).view(y.rows, y.length, *ids.shape[1:])
        sizes = there.sum(-1)
        shifted = [
            F.pad(found[:, m:, ..., m], (0, 0, 0, 0, 0, m)) * there[:, None, ..., m] for m in range(ids.shape[3])
        ]
        together = torch.stack(shifted).sum(0) / sizes.clamp(min=1)[:, None]  # a form that starts at each place
        at = torch.arange(y.length, device=ids.device)[:, None, None]
        real = sizes.sum(-1) > 0  # a word, and not what makes all examples have as many
        never = (at > y.length - sizes[:, None]) | ((sizes == 0) & real[..., None])[:, None]  # no room, or no such form
        together, never = (part.transpose(1, 2).reshape(y.rows, shape[0], -1) for part in (together, never))
        place = (self.sharpness * together).masked_fill(never, float("-inf")).softmax(-1)
        per_word = (place * together.masked_fill(never, 0.0)).sum(-1)
        return (per_word * real).sum(1) / real.sum(1).clamp(min=1)

    def _padded(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Token ids and where there is one [examples, words, forms, tokens], put on the device once."""
        if device not in self.placed:
            known = self.forms
            words = max([1, *(len(example) for example in known)])
            most = max([1, *(len(word) for example in known for word in example)])
            filled = [[*example, *[[]] * (words - len(example))] for example in known]
            rows = [ids for example in filled for word in example for ids in [*word, *[[]] * (most - len(word))]]
            ids, there = pad([ids or [0] for ids in rows], device)
            there = there & torch.tensor([bool(ids) for ids in rows], device=device)[:, None]
            shape = (len(known), words, most)
            self.placed[device] = ids.view(*shape, -1), there.float().view(*shape, -1)
        return self.placed[device]


def _forms(word: Word) -> list[list[int]]:
    """One form, if it is given as ids alone."""
    if not len(word) or isinstance(word[0], int):
        return [list(word)]  # type: ignore[arg-type]
    return [list(ids) for ids in word]  # type: ignore[arg-type]
