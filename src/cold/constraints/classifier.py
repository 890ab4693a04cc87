"""Classifiers: log p(label | y~), by a linear probe on the LM's embeddings or by a sequence classifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cold.constraints.base import Constraint, Random, Readings
from cold.errors import ColdError
from cold.lm.model import LanguageModel
from cold.soft import SoftSequence


@dataclass(frozen=True, eq=False)
class Probe(Constraint):
    """f = log softmax(W mean_t E^T softmax(y~_t) + b)(label): a few kilobytes that `train_probe` learns in seconds."""

    weight: Tensor  # [vocab, labels]: W E^T, the labels' logits of each token alone
    bias: Tensor  # [labels]
    labels: Sequence[str]
    label: str
    name: str = "probe"

    def __post_init__(self) -> None:
        _check_label(self.name, self.label, self.labels)

    def score(self, y: SoftSequence, readings: Readings, random: Random) -> Tensor:
        probs = y.logits.softmax(-1).mean(1)
        said = probs @ self.weight.to(probs.dtype) + self.bias
        return said.log_softmax(-1)[:, list(self.labels).index(self.label)]

    def wants(self, label: str) -> Probe:
        """The same probe for another label."""
        return Probe(self.weight, self.bias, self.labels, label, self.name)

    def judge(self, ids: Sequence[int]) -> dict[str, float]:
        """p(label | text) of a hard text."""
        said = (self.weight[list(ids)].mean(0) + self.bias).softmax(-1)
        return dict(zip(self.labels, said.tolist(), strict=True))


def train_probe(
    lm: LanguageModel, examples: Mapping[str, Sequence[str]], decay: float = 0.1, steps: int = 100, name: str = "probe"
) -> Probe:
    """Logistic regression on mean embeddings, from a few sentences per label; wants the first label.

    The features are the LM's own embeddings, scaled to one; `decay` is the weight of |W|^2. Convex: no seed, no luck.
    """
    labels = list(examples)
    rows = [(lm.encode_after(" " + text), n) for n, label in enumerate(labels) for text in examples[label]]
    if len(labels) < 2 or len({n for _, n in rows}) < len(labels):
        raise ColdError("a probe tells labels apart: give two or more, each with at least one sentence")
    table = lm.table.float()
    table = (table - table.mean(0)) / table.std()
    features = torch.stack([table[ids].mean(0) for ids, _ in rows])
    truth = torch.tensor([n for _, n in rows], device=table.device)
    weight = torch.zeros(table.shape[1], len(labels), device=table.device, requires_grad=True)
    bias = torch.zeros(len(labels), device=table.device, requires_grad=True)
    learner = torch.optim.LBFGS([weight, bias], max_iter=steps, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        learner.zero_grad()
        found = torch.nn.functional.cross_entropy(features @ weight + bias, truth) + decay * weight.square().sum()
        found.backward()  # type: ignore[no-untyped-call]
        return found

    learner.step(loss)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        return Probe(table @ weight, bias.detach(), labels, labels[0], name)


@dataclass(frozen=True, eq=False)
class Classifier(Constraint):
    """f = log p(label | y~) of a sequence classifier over the vocabulary of the LM, which reads soft tokens."""

    model: Any  # of AutoModelForSequenceClassification, frozen
    label: str
    name: str = "classifier"

    def __post_init__(self) -> None:
        _check_label(self.name, self.label, self.labels)
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


def _check_label(name: str, label: str, labels: Sequence[str]) -> None:
    if label not in labels:
        raise ColdError(f"term {name!r}: there is no label {label!r}: use {', '.join(labels)}")
