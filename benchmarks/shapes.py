"""Models of known shapes with random weights: for speed the numbers in them do not matter."""

from __future__ import annotations

from typing import NamedTuple

import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from cold.lm.model import LanguageModel

WINDOW = 4096  # tokens, so that long left contexts fit


class Shape(NamedTuple):
    layers: int
    width: int
    heads: int
    vocab: int = 50257
    kv_heads: int = 0  # 0: a GPT-2; else a Llama with as many key heads
    ffn: int = 0


SHAPES = {
    "tiny": Shape(2, 64, 2, 515),
    "gpt2-small": Shape(12, 768, 12),
    "gpt2-medium": Shape(24, 1024, 16),
    "gpt2-xl": Shape(48, 1600, 25),
    "smollm2": Shape(30, 576, 9, 49152, 3, 1536),
}


def make(
    name: str, device: torch.device, dtype: torch.dtype, reverse: bool = False, window: int = 4096
) -> LanguageModel:
    shape = SHAPES[name]
    torch.manual_seed(int(reverse))
    with torch.device(device):
        if shape.kv_heads:
            config = LlamaConfig(
                vocab_size=shape.vocab, hidden_size=shape.width, num_hidden_layers=shape.layers,
                num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads, intermediate_size=shape.ffn,
                max_position_embeddings=WINDOW, tie_word_embeddings=True, bos_token_id=0, eos_token_id=0,
            )  # fmt: skip
            model = LlamaForCausalLM(config)
        else:
            config = GPT2Config(
                vocab_size=shape.vocab, n_embd=shape.width, n_layer=shape.layers, n_head=shape.heads,
                n_positions=WINDOW, bos_token_id=0, eos_token_id=0,
            )  # fmt: skip
            model = GPT2LMHeadModel(config)
    return LanguageModel(model.to(dtype), name=name, reverse=reverse)


def multiplied(name: str) -> tuple[int, int]:
    """Weights that every token is multiplied with: in the layers, and in the table."""
    s = SHAPES[name]
    if s.kv_heads:
        each = s.width * s.width * 2 + 2 * s.width * s.width * s.kv_heads // s.heads + 3 * s.width * s.ffn
    else:
        each = 12 * s.width * s.width
    return s.layers * each, s.vocab * s.width
