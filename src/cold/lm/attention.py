"""Attention of a step's tokens to a text read before and to each other; on a GPU without joining the two.

Registered with the library under a name of our own. A call without `ahead` is the library's attention, untouched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from cold.kernels import compiled

NAME = "cold"
PLAIN = {"scaling", "dropout", "is_causal", "position_ids", "use_cache", "output_attentions"}  # change no score here


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    ahead: Sequence[tuple[Tensor, Tensor]] | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """`ahead`: per layer, keys and values [texts, heads, tokens, width]; neighbouring rows may share a text."""
    if ahead:
        keys, values = ahead[module.layer_idx]
        known = all(name in PLAIN or value is None for name, value in options.items())
        if known and attention_mask is not None and compiled(query.device):
            from cold.gpu.attention import Attend, fits

            if fits(query, keys):
                scale = options.get("scaling")
                scale = query.shape[-1] ** -0.5 if scale is None else scale
                return Attend.apply(query, key, value, keys, values, attention_mask, scale), None  # type: ignore[no-untyped-call]
        key, value = _join(keys, key), _join(values, value)
    out, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    return out, None


def _join(text: Tensor, new: Tensor) -> Tensor:
    """Each text before each of its rows, in one copy."""
    split = new.view(len(text), -1, *new.shape[1:])
    return torch.cat([text[:, None].expand(-1, split.shape[1], -1, -1, -1), split], 3).flatten(0, 1)


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, sdpa_mask)
