"""Randomness as a function of (row seed, step, position, token): the same on every device and in every batch."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import torch
from torch import Tensor

GOLDEN = -1640531527  # 2^32 / golden ratio, as a signed number: spreads small counters
STRIDE = 668265263  # a prime: positions and steps must not meet


class Rows:
    """The seeds of a batch as keys on its device, made once per stream: a step copies nothing to the device."""

    def __init__(self, seeds: Sequence[int], device: torch.device | str = "cpu") -> None:
        self.seeds, self.device = list(seeds), torch.device(device)
        self._keys: dict[str, Tensor] = {}

    def keys(self, stream: str) -> Tensor:
        """Two 32-bit numbers per row [rows, 2]."""
        if stream not in self._keys:
            keys = [_key(seed, stream) for seed in self.seeds]
            self._keys[stream] = torch.tensor(keys, dtype=torch.int32, device=self.device).view(-1, 2)
        return self._keys[stream]

    def at(self, step: int | Tensor) -> Noise:
        return Noise(self, step)


class Noise:
    """Counter-based random numbers of one step, for rows with the given seeds.

    `step` may be a tensor on the rows' device: then the same recorded work draws other numbers at every replay.
    """

    def __init__(self, rows: Rows | Sequence[int], step: int | Tensor, device: torch.device | str = "cpu") -> None:
        self.rows = rows if isinstance(rows, Rows) else Rows(rows, device)
        self.step, self.device = step, self.rows.device

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
        """Numbers strictly between 0 and 1, by hashing a counter with a 64-bit key per row, step and position."""
        positions, tokens = shape
        first, second = self._place_keys(stream, positions)
        x = torch.arange(tokens, dtype=torch.int32, device=self.device) * GOLDEN
        x = _mix(x + first[..., None], second[..., None])
        # 23 bits and a half fit into a float; with 24 the largest would round to 1, and its Gumbel number is infinite
        return ((x >> 9) & 0x7FFFFF).float().add_(0.5).mul_(2.0**-23)

    def _place_keys(self, stream: str, positions: int) -> tuple[Tensor, Tensor]:
        """The key of each row and position at this step, in two halves [rows, positions]."""
        first, second = self.rows.keys(stream)[:, None].unbind(-1)
        step = torch.as_tensor(self.step, dtype=torch.int32, device=self.device)
        place = torch.arange(positions, dtype=torch.int32, device=self.device) * STRIDE + step * GOLDEN
        first = _mix(first + place, second)
        return first, _mix(second ^ place, first)


def _mix(x: Tensor, key: Tensor) -> Tensor:
    """The finalizer of MurmurHash3 on 32-bit numbers, with a key mixed in between; writes over x."""
    x ^= (x >> 16) & 0xFFFF
    x *= -2048144789
    x ^= key
    x ^= (x >> 13) & 0x7FFFF
    x *= -1028477387
    x ^= (x >> 16) & 0xFFFF
    return x


def row_seed(seed: int, sample: int, key: str = "") -> int:
    """The seed of an example's i-th sample, `key` naming the example; it does not depend on the number of samples."""
    name = f"{seed}/{sample}/{key}" if key else f"{seed}/{sample}"
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=6).digest(), "little")


def _key(seed: int, stream: str) -> tuple[int, int]:
    digest = hashlib.blake2b(f"{seed}/{stream}".encode(), digest_size=8).digest()
    low, high = digest[:4], digest[4:]
    return int.from_bytes(low, "little", signed=True), int.from_bytes(high, "little", signed=True)
