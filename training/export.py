"""From trained layers to a model that anything can load: a Hugging Face folder, or the package's own small files.

python -m training.export --partner smollm2 --layers build/reverse --to my-reverse
cold abductive --left ... --right ... --reverse my-reverse
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

from cold.lm.load import load
from cold.lm.masked import BOTH_WAYS
from training import network
from training.train import mask_token


def assemble(layers: Path) -> LlamaForCausalLM:
    """The trained network, whole."""
    model = LlamaForCausalLM(LlamaConfig(**json.loads((layers / "config.json").read_text())))
    state: dict[str, Any] = {
        f"model.{name}": weight for name, weight in load_file(layers / "layers.safetensors").items()
    }
    state["model.embed_tokens.weight"] = state["lm_head.weight"] = network.read_table(layers / "table.safetensors")
    model.load_state_dict(state)
    model.tie_weights()
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partner", default="smollm2", help="whose tokenizer")
    parser.add_argument("--layers", type=Path, required=True, help="folder made by training.train")
    parser.add_argument("--to", type=Path, required=True, help="the new model's folder")
    args = parser.parse_args()
    model, partner = assemble(args.layers), load(args.partner, device="cpu")
    if model.config.reads == BOTH_WAYS:
        partner.tokenizer.mask_token = partner.tokenizer.convert_ids_to_tokens(mask_token(partner))
    model.save_pretrained(args.to)
    partner.tokenizer.save_pretrained(args.to)
    print(f"{args.to} is an ordinary Hugging Face model; config.json says which way it reads")


if __name__ == "__main__":
    main()
