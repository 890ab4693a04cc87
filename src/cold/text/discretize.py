"""From soft to discrete: y_t = argmax over the LM's k best tokens of y~_t(v), "top-k filtering" (Eq. 6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cold.errors import ColdError
from cold.lm.candidates import top_k_mask
from cold.lm.context import Context
from cold.text.problems import Problems

Discretize = Callable[[Problems, Tensor], list[list[int]]]  # problems and logits -> token ids per row


@dataclass(frozen=True)
class Argmax:
    """The most likely token at each position, with nobody guarding fluency."""

    def __call__(self, problems: Problems, y: Tensor) -> list[list[int]]:
        ids: list[list[int]] = y.masked_fill(problems.lm.banned, -float("inf")).argmax(-1).tolist()
        return ids


@dataclass(frozen=True)
class TopK:
    """The LM guards: only its k best tokens, and the constraint tokens of `widen`, may be chosen at each position."""

    k: int
    widen: bool = True

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ColdError(f"top-k is {self.k}: let the LM offer at least 1 token")

    def __call__(self, problems: Problems, y: Tensor) -> list[list[int]]:
        return self.tokens(problems.story, y, problems.widen if self.widen else ())

    @torch.no_grad()
    def tokens(self, story: Context, y: Tensor, widen: Sequence[Sequence[int]] = ()) -> list[list[int]]:
        lm, (rows, length, _) = story.lm, y.shape
        samples = rows // story.examples
        extra = torch.zeros(rows, lm.vocab, dtype=torch.bool, device=y.device)
        for example, tokens in enumerate(widen):
            extra[example * samples : (example + 1) * samples, list(tokens)] = True
        prefix = story.prefix.select([row // samples for row in range(rows)])
        chosen: list[Tensor] = []
        for t in range(length):
            assert prefix.logits is not None
            allowed = top_k_mask(prefix.logits.masked_fill(lm.banned, -float("inf")), self.k) | extra
            chosen.append(y[:, t].masked_fill(~allowed | lm.banned, -float("inf")).argmax(-1))
            if t < length - 1:
                prefix = prefix.append_ids(chosen[-1])
        ids: list[list[int]] = torch.stack(chosen, 1).tolist()
        return ids
