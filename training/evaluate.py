"""Bits per character of whole texts: -log2 p(tokens) / characters, each text alone behind one separator.

python -m training.evaluate stories.jsonl --model smollm2 --model mini --model mini-reverse
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from cold.lm.load import load

ROWS = 50  # texts read at once


def read_texts(path: Path, most: int | None = None) -> list[str]:
    """One text a line; in a .jsonl file the field `text`, or `sentences` joined."""
    lines = path.read_text(encoding="utf-8").splitlines()[:most]
    if path.suffix != ".jsonl":
        return [line.strip() for line in lines if line.strip()]
    items = [json.loads(line) for line in lines]
    return [item["text"] if "text" in item else " ".join(item["sentences"]) for item in items]


@torch.no_grad()
def bits_per_character(
    model: Any, ids: Sequence[Sequence[int]], characters: int, separator: int, reverse: bool
) -> tuple[float, float]:
    """Of the tokens alone, and with the separator at the far end: the second is what is equal in both directions."""
    device, inner, end = model.device, 0.0, 0.0
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    for first in range(0, len(order), ROWS):
        rows = [list(ids[i])[:: -1 if reverse else 1] for i in order[first : first + ROWS]]
        size = max(map(len, rows))
        batch = torch.tensor([[separator, *row, separator, *[0] * (size - len(row))] for row in rows], device=device)
        sizes = torch.tensor([[len(row)] for row in rows], device=device)
        logits = model(input_ids=batch[:, :-1]).logits.float()  # causal: padding behind changes nothing
        bits = -logits.log_softmax(-1).gather(-1, batch[:, 1:, None])[..., 0] / math.log(2)
        at = torch.arange(size + 1, device=device)
        inner += float((bits * (at < sizes)).sum())
        end += float((bits * (at == sizes)).sum())
    return inner / characters, (inner + end) / characters


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path, help="one text a line, or .jsonl")
    parser.add_argument("--model", action="append", required=True, help="a name, a folder or a hub id; repeatable")
    parser.add_argument("--most", type=int, help="read only so many texts")
    args = parser.parse_args()
    texts = read_texts(args.texts, args.most)
    characters = sum(map(len, texts))
    print(f"{len(texts)} texts, {characters:,} characters")
    print(f"{'model':16} {'direction':14} {'bits/char':>10} {'with the end':>13} {'nats/token':>11}")
    for name in args.model:
        lm = load(name)
        ids = [lm.encode(text) for text in texts]
        inner, whole = bits_per_character(lm.model, ids, characters, lm.separator, lm.reverse)
        nats = inner * characters * math.log(2) / sum(map(len, ids))
        direction = "right-to-left" if lm.reverse else "left-to-right"
        print(f"{name:16} {direction:14} {inner:10.4f} {whole:13.4f} {nats:11.4f}", flush=True)


if __name__ == "__main__":
    main()
