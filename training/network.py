"""The network of the recipe: a Llama as wide as its partner's embedding table, which it takes over."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from cold.lm.masked import BOTH_WAYS
from cold.lm.model import LanguageModel
from cold.lm.pack import expand_table, squeeze, squeeze_table

HEAD = 64  # width of an attention head, as SmolLM2 has it
THETA = 10_000.0
READS = {"forward": "left-to-right", "reverse": "right-to-left", "masked": BOTH_WAYS}


def make_table(partner: LanguageModel, ids: np.ndarray, recipe: SimpleNamespace, path: Path) -> None:
    """The partner's table as it will be shipped, so that the layers learn on what they will find."""
    table = partner.table.float() * partner.embedding_scale
    if recipe.frequent and table.shape[1] % recipe.code:
        raise SystemExit(
            f"the table is {table.shape[1]} wide and code = {recipe.code} does not divide it: change the recipe"
        )
    if not recipe.frequent:
        save_file({"table": table.cpu().contiguous()}, path)
        return
    counts = torch.from_numpy(np.bincount(ids, minlength=partner.vocab)[: partner.vocab])
    frequent = counts.argsort(descending=True, stable=True)[: recipe.frequent].sort().values.to(table.device)
    packed = squeeze_table(table, frequent, recipe.code)
    save_file({name: part.cpu().contiguous() for name, part in packed.items()}, path)


def read_table(path: Path) -> Tensor:
    packed = load_file(path)
    return packed["table"] if "table" in packed else expand_table(packed)


def taught_words(path: Path) -> Tensor:
    """The words whose rows may be trained: the frequent ones, or all where the table is kept exact."""
    packed = load_file(path)
    return torch.arange(len(packed["table"])) if "table" in packed else packed["frequent.ids"].long()


def write_table(path: Path, start: Path, rows: Tensor) -> None:
    """The table of `start` with other rows for its taught words."""
    packed, rows = load_file(start), rows.detach().float().cpu()
    if "table" in packed:
        packed["table"] = rows.contiguous()
    else:
        packed |= {f"frequent.{name}": part.contiguous() for name, part in squeeze(rows).items()}
    save_file(packed, path)


def build(table: Tensor, recipe: SimpleNamespace, separator: int, direction: str) -> LlamaForCausalLM:
    words, width = table.shape
    heads = next(count for count in range(max(1, width // HEAD), 0, -1) if width % count == 0)
    config = LlamaConfig(
        vocab_size=words, hidden_size=width, num_hidden_layers=recipe.layers, intermediate_size=recipe.ffn,
        num_attention_heads=heads, num_key_value_heads=heads // 3 if heads % 3 == 0 else heads, head_dim=width // heads,
        max_position_embeddings=recipe.window, rope_parameters={"rope_type": "default", "rope_theta": THETA},
        tie_word_embeddings=True, bos_token_id=separator, eos_token_id=separator, pad_token_id=separator,
        reads=READS[direction],
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    model.get_input_embeddings().weight.data.copy_(table)
    model.get_input_embeddings().weight.requires_grad_(False)
    torch.nn.init.constant_(model.model.norm.weight, 0.1)  # else a word predicts itself with certainty
    for layer in model.model.layers:  # each layer starts by changing nothing
        torch.nn.init.zeros_(layer.self_attn.o_proj.weight)
        torch.nn.init.zeros_(layer.mlp.down_proj.weight)
    return model


@torch.no_grad()
def borrow(model: LlamaForCausalLM, partner: Any) -> None:
    """Start from the partner's layers, evenly spaced, with the feed-forward units that weigh most."""
    theirs, count = partner.model.layers, len(model.model.layers)
    picks = [round(i * (len(theirs) - 1) / max(1, count - 1)) for i in range(count)]
    for ours, pick in zip(model.model.layers, picks, strict=True):
        state = {name: weight.float() for name, weight in theirs[pick].state_dict().items()}
        gate, up, down = (state[f"mlp.{name}_proj.weight"] for name in ("gate", "up", "down"))
        weight = gate.norm(dim=1) * up.norm(dim=1) * down.norm(dim=0)
        units = weight.argsort(descending=True)[: model.config.intermediate_size].sort().values
        state["mlp.gate_proj.weight"], state["mlp.up_proj.weight"] = gate[units], up[units]
        state["mlp.down_proj.weight"] = down[:, units]
        ours.load_state_dict(state)
    model.model.norm.load_state_dict(partner.model.norm.state_dict())


def layers_of(model: LlamaForCausalLM) -> dict[str, Tensor]:
    """What was trained: everything but the table."""
    return {name: weight for name, weight in model.model.state_dict().items() if not name.startswith("embed_tokens")}
