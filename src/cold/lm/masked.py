"""A masked LM from the blocks of a Llama: p(v | left, right), every place seeing the whole text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

BOTH_WAYS = "both ways"  # what `reads` in a configuration says of a model that training/ taught to fill gaps


class MaskedLlama(nn.Module):
    """A Llama without its causal mask, called as the masked LMs of the library are."""

    def __init__(self, llama: Any) -> None:
        super().__init__()
        self.llama = llama

    @property
    def device(self) -> torch.device:
        device: torch.device = self.llama.device
        return device

    @property
    def config(self) -> Any:
        return self.llama.config

    def get_output_embeddings(self) -> nn.Module:
        head: nn.Module = self.llama.get_output_embeddings()
        return head

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        size = input_ids.shape[1]
        sees = attention_mask.bool()[:, None, None, :].expand(-1, 1, size, size)  # given so, it is taken as it is
        return self.llama(input_ids=input_ids, attention_mask=sees, use_cache=False)


def logits_at(model: Any, ids: Tensor, there: Tensor, at: Tensor) -> Tensor:
    """What a masked LM says of one place in each row [rows, vocab], fp32.

    The output layer is as wide as the vocabulary, so it is shown the states of those places alone wherever it has the
    usual form; other models give all logits, and the rest is dropped.
    """
    rows = torch.arange(len(ids), device=ids.device)
    with _narrowed(model, ids, rows, at):
        said: Tensor = model(input_ids=ids, attention_mask=there.long()).logits
    return (said[:, 0] if said.shape[1] != ids.shape[1] else said[rows, at]).float()


@contextmanager
def _narrowed(model: Any, ids: Tensor, rows: Tensor, at: Tensor) -> Iterator[None]:
    """The model's output layer sees one state a row: [rows, 1, width] in place of [rows, tokens, width]."""
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    if not isinstance(head, nn.Linear) or ids.shape[1] == 1:
        yield
        return

    def narrow(_: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        return (given[0][rows, at][:, None],) if given[0].shape[:2] == ids.shape else None

    hook = head.register_forward_pre_hook(narrow)
    try:
        yield
    finally:
        hook.remove()
