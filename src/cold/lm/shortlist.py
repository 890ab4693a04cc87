"""An LM over a few thousand of its tokens: half of a step is work on the vocabulary, and most of it never speaks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from cold.errors import ColdError
from cold.kernels import wide_product
from cold.lm.model import LanguageModel, aligned

READ = 64  # texts that are asked what is expected after them: more change the list little


@dataclass(frozen=True, eq=False)
class Shortlisted(LanguageModel):
    """Our token n is the token kept[n] of `whole`, as likely as there, given that one of these comes.

    Texts go in and come out as before, a token that is not on the list being spelled with others; ids are its own.
    """

    whole: LanguageModel = field(kw_only=True)
    kept: Tensor = field(kw_only=True)  # [vocab], ascending

    def __post_init__(self) -> None:
        """The whole was made ready when it was loaded."""

    @classmethod
    def of(cls, lm: LanguageModel, kept: Sequence[int]) -> Shortlisted:
        index = torch.tensor(kept, dtype=torch.long, device=lm.device)
        return cls(lm.model, lm.tokenizer, lm.name, lm.reverse, 0, len(kept), lm.fingerprint, whole=lm, kept=index)

    # -- what a model is -------------------------------------------------------------------------------------

    @cached_property
    def table(self) -> Tensor:
        return self.whole.table[self.kept]

    @cached_property
    def _head(self) -> Tensor | None:
        """The rows of the output layer that are needed; None where logits are more than a product with it."""
        head = self.model.get_output_embeddings()
        if not self.whole.plain_head or getattr(head, "bias", None) is not None:
            return None
        return aligned(head.weight[self.kept + self.whole.first_id], self.align)

    @property
    def embedding_scale(self) -> float:
        return self.whole.embedding_scale

    @property
    def plain_head(self) -> bool:
        return self.whole.plain_head

    @property
    def looks_ahead(self) -> bool:
        return self.whole.looks_ahead

    @cached_property
    def separator(self) -> int:
        return self._own[self.whole.separator]

    @cached_property
    def banned(self) -> Tensor:
        return self.whole.banned[self.kept]

    # -- text ------------------------------------------------------------------------------------------------

    def encode(self, text: str) -> list[int]:
        return [own for token in self.whole.encode(text) for own in self._spelled(token)]

    def decode(self, ids: Sequence[int]) -> str:
        return self.whole.decode(self.kept[torch.tensor(ids, dtype=torch.long)].tolist())

    @cached_property
    def token_strings(self) -> list[str]:
        return [self.whole.token_strings[token] for token in self.kept.tolist()]

    @cached_property
    def _own(self) -> dict[int, int]:
        """Our number of a token of the whole."""
        return {token: n for n, token in enumerate(self.kept.tolist())}

    @cached_property
    def _pieces(self) -> dict[str, int]:
        return {piece: n for n, piece in enumerate(self.tokenizer.convert_ids_to_tokens(self.kept.tolist()))}

    def _spelled(self, token: int) -> list[int]:
        """A token, or the longest pieces of it that are on the list, from the left."""
        if token in self._own:
            return [self._own[token]]
        rest, found = self.tokenizer.convert_ids_to_tokens(token), []
        while rest:
            size = next((n for n in range(len(rest), 0, -1) if rest[:n] in self._pieces), 0)
            if not size:
                raise ColdError(
                    f"a shortlist of {self.vocab} tokens cannot spell {self.whole.decode([token])!r}: "
                    "take a longer one, or 0 for the whole vocabulary"
                )
            found.append(self._pieces[rest[:size]])
            rest = rest[size:]
        return found

    # -- reading ---------------------------------------------------------------------------------------------

    def embed(self, ids: Tensor) -> Tensor:
        return self.whole.embed(self.kept[ids])

    def logits(self, states: Tensor) -> Tensor:
        if self._head is None:
            return self.whole.logits(states)[..., self.kept]
        said = wide_product(states.flatten(0, -2), self._head, 0, self.vocab)
        return said.view(*states.shape[:-1], self.vocab)


def shortlist(lm: LanguageModel, size: int, texts: Sequence[str], words: Iterable[str]) -> list[int]:
    """The `size` tokens that the LM expects most in the course of the texts; all tokens of the texts and words too."""
    texts = list(dict.fromkeys(text for text in texts if text.strip()))
    expected = torch.zeros(lm.vocab, device=lm.device)
    for text in texts[:: max(1, -(-len(texts) // READ))] or [""]:
        expected += _expected(lm, text)
    best = expected.masked_fill(lm.banned, -1.0).topk(min(size, lm.vocab)).indices.tolist()
    said = {token for text in {*texts, *words} for token in (*lm.encode(text), *lm.encode_after(" " + text.strip()))}
    pieces = lm.tokenizer.convert_ids_to_tokens(range(min(lm.vocab, len(lm.tokenizer))))
    letters = (token for token, piece in enumerate(pieces) if len(piece) == 1)
    return sorted({*best, *said, *letters, lm.separator})


@torch.no_grad()
def _expected(lm: LanguageModel, text: str) -> Tensor:
    """How often the LM expects each token in the course of the text [vocab]."""
    ids = torch.tensor([[lm.separator, *lm.encode(text)][: lm.window]], device=lm.device)
    at = torch.arange(ids.shape[1], device=lm.device)[None]
    logits, _ = lm.read(lm.embed(ids), (), torch.ones_like(at), at)
    return logits[0].softmax(-1).sum(0)
