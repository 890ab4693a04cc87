"""The paper's loop as it is written, for comparison: fp32, no cache, one pass of the LM for every constraint.

Nothing here is meant to be fast or to be used: it is Algorithm 1 with equations 2 to 5 transcribed one by one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class Literal:
    """E(y~) = -sum of weighted terms, each reading whole texts from their first token."""

    def __init__(self, forward: Any, backward: Any, texts: list[Tensor], weights: dict[str, float]) -> None:
        self.forward, self.backward, self.weights = forward, backward, weights
        self.left, self.right, self.words = texts  # ids [rows, n]

    def read(self, model: Any, parts: list[Tensor]) -> Tensor:
        table = model.get_input_embeddings().weight
        embeds = [part @ table if part.ndim == 3 else table[part] for part in parts]
        logits: Tensor = model(inputs_embeds=torch.cat(embeds, 1), use_cache=False).logits
        return logits

    def fluency(self, y: Tensor) -> Tensor:
        n = self.left.shape[1]
        said = self.read(self.forward, [self.left, y.softmax(-1)])[:, n - 1 : -1]
        return (said.softmax(-1) * y.log_softmax(-1)).sum((1, 2))

    def fluency_reverse(self, y: Tensor) -> Tensor:
        n = self.right.shape[1]
        said = self.read(self.backward, [self.right.flip(1), y.softmax(-1).flip(1)])[:, n - 1 : -1]
        return (said.softmax(-1) * y.log_softmax(-1).flip(1)).sum((1, 2))

    def future(self, y: Tensor) -> Tensor:
        n = self.left.shape[1] + y.shape[1]
        said = self.read(self.forward, [self.left, y.softmax(-1), self.right])[:, n - 1 : -1]
        return said.log_softmax(-1).gather(-1, self.right[..., None]).sum((1, 2))

    def similarity(self, y: Tensor) -> Tensor:
        matches = y.log_softmax(-1).gather(-1, self.words[:, None].expand(-1, y.shape[1], -1))
        return (matches.softmax(1) * matches).sum(1).mean(1)

    def slope(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """E and its gradient."""
        y = y.detach().requires_grad_(True)
        energy = torch.stack([-weight * getattr(self, name)(y) for name, weight in self.weights.items()]).sum(0)
        (slope,) = torch.autograd.grad(energy.sum(), y)
        return energy.detach(), slope

    def step(self, y: Tensor, step_size: float, sigma: float) -> Tensor:
        return y - step_size * self.slope(y)[1] + sigma * torch.randn_like(y)
