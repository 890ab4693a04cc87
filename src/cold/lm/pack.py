"""Weights in few bytes: w = scale * q; of a table, frequent words in 8 bits and rare ones in product codes."""

from __future__ import annotations

import torch
from torch import Tensor

STEPS = 127  # of an 8-bit number on either side of zero
TINY = 6e-8  # the least that a 16-bit scale can hold
CENTRES = 256  # what one byte can name


def squeeze(matrix: Tensor, group: int = 0) -> dict[str, Tensor]:
    """8 bits a number and one scale for every `group` numbers of a row; 0: one a row."""
    pieces = matrix.float().reshape(len(matrix), -1, group or matrix.shape[1])
    scale = (pieces.abs().amax(2) / STEPS).clamp(min=TINY).half()
    q = (pieces / scale.float()[..., None]).round().clamp(-STEPS, STEPS)
    return {"q": q.flatten(1).to(torch.int8), "scale": scale}


def expand(packed: dict[str, Tensor]) -> Tensor:
    q, scale = packed["q"].float(), packed["scale"].float()
    return (q.reshape(*scale.shape, -1) * scale[..., None]).flatten(1)


def squeeze_table(table: Tensor, frequent: Tensor, each: int, rounds: int = 20) -> dict[str, Tensor]:
    """Rows `frequent` in 8 bits; of the others, every `each` numbers become one byte: the nearest of 256 centres."""
    rare = torch.ones(len(table), dtype=torch.bool, device=table.device)
    rare[frequent] = False
    pieces = torch.split(table[rare].float(), each, 1)
    centres, codes = zip(*(_nearest(piece, rounds) for piece in pieces), strict=True)
    packed = {f"frequent.{name}": part for name, part in squeeze(table[frequent].float()).items()}
    return {
        **packed,
        "frequent.ids": frequent.to(torch.int32),
        "codes": torch.stack(codes, 1).to(torch.uint8),
        "centres": torch.stack(centres).half(),
    }


def expand_table(packed: dict[str, Tensor]) -> Tensor:
    """[words, width] in fp32."""
    frequent, codes, centres = packed["frequent.ids"].long(), packed["codes"].long(), packed["centres"].float()
    words = len(frequent) + len(codes)
    table = torch.empty(words, packed["frequent.q"].shape[1], device=codes.device)
    rare = torch.ones(words, dtype=torch.bool, device=codes.device)
    rare[frequent] = False
    table[frequent] = expand({"q": packed["frequent.q"], "scale": packed["frequent.scale"]})
    table[rare] = torch.cat([centres[i][codes[:, i]] for i in range(codes.shape[1])], 1)
    return table


def _nearest(points: Tensor, rounds: int) -> tuple[Tensor, Tensor]:
    """k-means: 256 centres, and the number of each point's nearest."""
    places = torch.linspace(0, len(points) - 1, CENTRES, device=points.device).long()
    centres = points[places].clone()  # spread over the vocabulary; no randomness
    for _ in range(rounds):
        codes = (points @ centres.T - 0.5 * (centres * centres).sum(1)).argmax(1)
        sums = torch.zeros_like(centres).index_add_(0, codes, points)
        sizes = torch.bincount(codes, minlength=CENTRES)[:, None]
        centres = torch.where(sizes > 0, sums / sizes.clamp(min=1), centres)
    centres = centres.half().float()
    return centres, (points @ centres.T - 0.5 * (centres * centres).sum(1)).argmax(1)
