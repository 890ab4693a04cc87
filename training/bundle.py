"""Pack models into the package: one table, 8 bits a weight, checksums; and say what the packing cost.

    python -m training.bundle --partner smollm2 --forward build/forward --reverse build/reverse \\
        --validate stories.jsonl
    python -m training.bundle --masked build/masked

The pair comes first: it brings the table and the tokenizer. The masked model, trained on that table, joins it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import math
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from cold.lm import bundled, catalog
from cold.lm.load import load
from cold.lm.pack import squeeze
from training.evaluate import bits_per_character, read_texts
from training.export import assemble
from training.recipe import HERE
from training.train import mask_token

PLACE = HERE.parent / "src" / "cold" / "bundled"
GROUP = 192  # weights that share a scale: mini-reverse's perplexity moves by 0.50 %, with one a row by 0.71 %
KEPT = (  # of the configuration: the rest are defaults
    "vocab_size hidden_size num_hidden_layers intermediate_size num_attention_heads num_key_value_heads head_dim "
    "max_position_embeddings rms_norm_eps rope_parameters tie_word_embeddings bos_token_id eos_token_id pad_token_id "
    "reads"
).split()


def pack_layers(layers: dict[str, Tensor]) -> dict[str, Tensor]:
    packed: dict[str, Tensor] = {}
    for name, weight in layers.items():
        if weight.ndim == 2:
            packed |= {f"{name}.{part}": value.contiguous() for part, value in squeeze(weight, GROUP).items()}
        else:
            packed[name] = weight.half()
    return packed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partner", default="smollm2")
    parser.add_argument("--forward", type=Path)
    parser.add_argument("--reverse", type=Path)
    parser.add_argument("--masked", type=Path)
    parser.add_argument("--validate", type=Path, help="texts on which the packing is judged")
    parser.add_argument("--most", type=int, help="read only so many of them")
    args = parser.parse_args()
    if (args.forward is None) != (args.reverse is None) or not (args.forward or args.masked):
        parser.error("give --forward and --reverse, or --masked, or all three")
    PLACE.mkdir(exist_ok=True)
    if args.forward:
        pack_pair(args)
    if args.masked:
        add_masked(args.masked)
    total = sum(file.stat().st_size for file in PLACE.iterdir())
    print(f"{total:,} bytes in {PLACE}")


def pack_pair(args: argparse.Namespace) -> None:
    models = {"mini": args.forward, "mini-reverse": args.reverse}
    if len({(folder / "table.safetensors").read_bytes() for folder in models.values()}) > 1:
        raise SystemExit("the two models have different tables: train the second with --table of the first")
    shutil.copyfile(args.forward / "table.safetensors", PLACE / "table.safetensors")
    for name, folder in models.items():
        save_file(pack_layers(load_file(folder / "layers.safetensors")), PLACE / f"{name}.safetensors")
    source = catalog.find(args.partner) or Path(args.partner)
    (PLACE / "tokenizer.json.xz").write_bytes(lzma.compress((source / "tokenizer.json").read_bytes(), preset=9))
    write_index(models, source)
    if args.validate:
        judge(args, models)


def add_masked(folder: Path) -> None:
    """The masked model beside the pair: its layers, and its line in the index."""
    if (folder / "table.safetensors").read_bytes() != (PLACE / "table.safetensors").read_bytes():
        raise SystemExit("the masked model has another table: train it with --table of the pair")
    file = PLACE / f"{bundled.MASKED}.safetensors"
    save_file(pack_layers(load_file(folder / "layers.safetensors")), file)
    bundled.index.cache_clear()
    index, lm = bundled.index(), load("mini", device="cpu")
    index["models"][bundled.MASKED] = describe(folder) | {"mask": lm.tokenizer.convert_ids_to_tokens(mask_token(lm))}
    index["files"][file.name] = hashlib.sha256(file.read_bytes()).hexdigest()
    (PLACE / bundled.INDEX).write_text(json.dumps(index, indent=1) + "\n")
    print(f"{file.name}: {file.stat().st_size:,} bytes")


def describe(folder: Path) -> dict[str, Any]:
    config = json.loads((folder / "config.json").read_text())
    return {
        "about": f"{config['num_hidden_layers']} layers, {config['reads']}, the vocabulary of SmolLM2, "
        f"{config['max_position_embeddings']} tokens of context",
        "parameters": sum(weight.numel() for weight in assemble(folder).parameters()),
        "config": {key: config[key] for key in KEPT},
    }


def write_index(models: dict[str, Path], source: Path) -> None:
    told = json.loads((source / "tokenizer_config.json").read_text())
    roles = ("bos_token", "eos_token", "unk_token", "pad_token", "extra_special_tokens", "clean_up_tokenization_spaces")
    names = ("table.safetensors", "tokenizer.json.xz", *(f"{name}.safetensors" for name in models))
    files = sorted(PLACE / name for name in names)
    index = {
        "models": {name: describe(folder) for name, folder in models.items()},
        "tokenizer": {key: told[key] for key in roles if key in told} | {"model_max_length": 256},
        "files": {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files},
    }
    (PLACE / bundled.INDEX).write_text(json.dumps(index, indent=1) + "\n")


def judge(args: argparse.Namespace, models: dict[str, Path]) -> None:
    """Perplexity per token of the trained weights and of the packed ones."""
    texts = read_texts(args.validate, args.most)
    tokenizer, characters = bundled.tokenizer(), sum(map(len, texts))
    ids = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
    nats = characters * math.log(2) / sum(map(len, ids))
    for name, folder in models.items():
        reverse, found = name.endswith("reverse"), []
        for model in (assemble(folder), bundled.model(name, torch.float32)):
            found.append(bits_per_character(model.eval(), ids, characters, 0, reverse)[0])
        before, after = (math.exp(bits * nats) for bits in found)
        print(f"{name}: perplexity {before:.3f} trained, {after:.3f} packed ({100 * (after / before - 1):+.2f} %)")


if __name__ == "__main__":
    main()
