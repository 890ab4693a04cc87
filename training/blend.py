"""The weighted mean of two trainings of one network: where the second went on from the first, better than either.

    python -m training.blend build/first build/second --second 0.4 --grown 0.5 --sharpen 1.04 --out build/blend

The second may have grown (`training.train --start first --layers more`): its new layers are its own, and what they add
is scaled by --grown. --sharpen multiplies all logits, for a model that was trained on samples of another temperature.
Choose all three on texts that are not reported. The table must be the same; it is copied.
"""

from __future__ import annotations

import argparse
import re
import shutil
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor

ADDS = ("self_attn.o_proj.weight", "mlp.down_proj.weight")  # what a layer adds to its input


def blend(first: dict[str, Tensor], second: dict[str, Tensor], share: float, grown: float) -> dict[str, Tensor]:
    """`share` of the second where both have a layer; `grown` of what a layer adds that the second alone has."""
    mixed = {name: first[name].float().lerp(second[name].float(), share) for name in first}
    new = {name: weight.float() for name, weight in second.items() if name not in first}
    return mixed | {name: weight * grown if name.endswith(ADDS) else weight for name, weight in new.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=Path, help="folder made by training.train")
    parser.add_argument("other", type=Path, help="the folder of the training that went on from it")
    parser.add_argument("--second", type=float, default=0.5, help="share of the second")
    parser.add_argument("--grown", type=float, default=0.5, help="of what a layer adds that the first does not have")
    parser.add_argument("--sharpen", type=float, default=1.0, help="of all logits")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    tables = {(folder / "table.safetensors").read_bytes() for folder in (args.first, args.other)}
    if len(tables) > 1:
        raise SystemExit("the two have different tables: a mean of layers needs one; train the second with --table")
    layers = blend(*(load_file(f / "layers.safetensors") for f in (args.first, args.other)), args.second, args.grown)
    layers["norm.weight"] = layers["norm.weight"] * args.sharpen
    args.out.mkdir(parents=True, exist_ok=True)
    save_file({name: weight.contiguous() for name, weight in layers.items()}, args.out / "layers.safetensors")
    for name in ("config.json", "table.safetensors"):
        shutil.copyfile(args.other / name, args.out / name)
    count = len({found[0] for name in layers if (found := re.findall(r"layers\.(\d+)\.", name))})
    print(f"{args.out}: {count} layers")


if __name__ == "__main__":
    main()
