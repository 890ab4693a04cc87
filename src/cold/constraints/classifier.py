"""A sequence classifier of the library that reads soft tokens: log p(label | y~)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cold.constraints.base import Constraint, Random, Readings
from cold.errors import ColdError
from cold.soft import SoftSequence


@dataclass(frozen=True, eq=False)
class Classifier(Constraint):
    """f = log p(label | y~) of a sequence classifier over the vocabulary of the LM, which reads soft tokens."""

    model: Any  # of AutoModelForSequenceClassification, frozen
    label: str
    name: str = "classifier"

    def __post_init__(self) -> None:
        check_label(self.name, self.label, self.labels)
        self.model.eval().requires_grad_(False)

    @property
    def labels(self) -> list[str]:
        return [str(label) for _, label in sorted(self.model.config.id2label.items())]

    def check(self, rows: int, length: int) -> None:
        if getattr(self.model.config, "is_encoder_decoder", False):
            raise ColdError(f"term {self.name!r}: an encoder-decoder cannot read soft tokens here: take another model")

    def score(self, y: SoftSequence, readings: Readings, random: Random) -> Tensor:
        table = self.model.get_input_embeddings().weight
        if table.shape[0] < y.logits.shape[-1]:
            raise ColdError(
                f"term {self.name!r}: the classifier knows {table.shape[0]} tokens and the text {y.logits.shape[-1]}: "
                "take one over the vocabulary of the LM"
            )
        probs = y.logits.softmax(-1).to(table.dtype)
        embeds = probs @ table[: probs.shape[-1]]
        mask = torch.ones(embeds.shape[:2], dtype=torch.long, device=embeds.device)
        said: Tensor = self.model(inputs_embeds=embeds, attention_mask=mask).logits.float()
        return said.log_softmax(-1)[:, self.labels.index(self.label)]


def check_label(name: str, label: str, labels: Sequence[str]) -> None:
    if label not in labels:
        raise ColdError(f"term {name!r}: there is no label {label!r}: use {', '.join(labels)}")
