"""Randomness as a function of (row seed, step, position, token): the same on every device and in every batch."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import torch
from torch import Tensor


class Noise:
    """Counter-based random numbers of one step, for rows with the given seeds."""

    def __init__(self, seeds: Sequence[int], step: int, device: torch.device | str = "cpu") -> None:
        self.seeds = list(seeds)
        self.step = step
        self.device = torch.device(device)

    def normal(self, stream: str, shape: tuple[int, int]) -> Tensor:
        """Standard normal numbers [rows, positions, tokens]; a pair of tokens shares one Box-Muller draw."""
        positions, tokens = shape
        pairs = (tokens + 1) // 2
        radius = (-2.0 * self._uniform(stream + "/r", (positions, pairs)).log_()).sqrt_()
        angle = self._uniform(stream + "/a", (positions, pairs)).mul_(2 * math.pi)
        both = torch.stack([angle.cos() * radius, angle.sin_().mul_(radius)], -1)
        return both.flatten(2)[..., :tokens]

    def gumbel(self, stream: str, shape: tuple[int, ...]) -> Tensor:
        """Standard Gumbel numbers [rows, positions, tokens]."""
        positions, tokens = shape
        return -torch.log(-torch.log(self._uniform(stream, (positions, tokens))))

    def _uniform(self, stream: str, shape: tuple[int, int]) -> Tensor:
        """Numbers strictly between 0 and 1, by hashing a counter with a 64-bit key per row and position."""
        positions, tokens = shape
        keys = torch.tensor(
            [[_key(seed, self.step, position, stream) for position in range(positions)] for seed in self.seeds],
            dtype=torch.int32,
            device=self.device,
        )
        x = torch.arange(tokens, dtype=torch.int32, device=self.device) * -1640531527  # 2^32 / golden ratio
        x = x + keys[..., :1]
        x ^= (x >> 16) & 0xFFFF
        x *= -2048144789  # the finalizer of MurmurHash3, with the key's second half mixed in between
        x ^= keys[..., 1:]
        x ^= (x >> 13) & 0x7FFFF
        x *= -1028477387
        x ^= (x >> 16) & 0xFFFF
        # 23 bits and a half fit into a float; with 24 the largest would round to 1, and its Gumbel number is infinite
        return ((x >> 9) & 0x7FFFFF).float().add_(0.5).mul_(2.0**-23)


def row_seed(seed: int, sample: int) -> int:
    """The seed of an example's i-th sample; it does not depend on how many samples are asked for."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{sample}".encode(), digest_size=6).digest(), "little")


def _key(seed: int, step: int, position: int, stream: str) -> tuple[int, int]:
    digest = hashlib.blake2b(f"{seed}/{step}/{position}/{stream}".encode(), digest_size=8).digest()
    low, high = digest[:4], digest[4:]
    return int.from_bytes(low, "little", signed=True), int.from_bytes(high, "little", signed=True)
