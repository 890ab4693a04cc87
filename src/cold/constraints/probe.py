"""A linear probe: log p(label | y~) from the mean of the LM's own word embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cold.constraints.base import Constraint, Random, Readings
from cold.constraints.classifier import check_label
from cold.errors import ColdError
from cold.lm.model import LanguageModel
from cold.soft import SoftSequence

STEPS = 100  # of L-BFGS, at most: a convex problem with a few hundred numbers is done before


@dataclass(frozen=True, eq=False)
class Probe(Constraint):
    """f = log softmax(W mean_t E^T softmax(y~_t) + b)(label): a few kilobytes that `train_probe` learns in seconds."""

    weight: Tensor  # [vocab, labels]: W E^T, the labels' logits of each token alone
    bias: Tensor  # [labels]
    labels: Sequence[str]
    label: str
    name: str = "probe"

    def __post_init__(self) -> None:
        check_label(self.name, self.label, self.labels)

    def score(self, y: SoftSequence, readings: Readings, random: Random) -> Tensor:
        probs = y.logits.softmax(-1).mean(1)
        said = probs @ self.weight.to(probs.dtype) + self.bias
        return said.log_softmax(-1)[:, list(self.labels).index(self.label)]

    def judge(self, ids: Sequence[int]) -> dict[str, float]:
        """p(label | text) of a hard text."""
        said = (self.weight[list(ids)].mean(0) + self.bias).softmax(-1)
        return dict(zip(self.labels, said.tolist(), strict=True))


def train_probe(
    lm: LanguageModel, examples: Mapping[str, Sequence[str]], label: str = "", decay: float = 0.1, name: str = "probe"
) -> Probe:
    """Logistic regression on mean embeddings, from a few sentences per label; it asks for `label`, or the first.

    The features are the LM's own embeddings, scaled to one; `decay` is the weight of |W|^2. Convex: no seed, no luck.
    """
    if not isinstance(examples, Mapping) or not all(isinstance(texts, list | tuple) for texts in examples.values()):
        raise ColdError(f"the examples of {name!r} are {examples!r}: give a list of sentences for each label")
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
    learner = torch.optim.LBFGS([weight, bias], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        learner.zero_grad()
        found = torch.nn.functional.cross_entropy(features @ weight + bias, truth) + decay * weight.square().sum()
        found.backward()  # type: ignore[no-untyped-call]
        return found

    learner.step(loss)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        return Probe(table @ weight, bias.detach(), labels, label or labels[0], name)
