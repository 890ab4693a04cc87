"""One token hidden at a time: bits of the right one, and how often it is the best or among the best ten.

    python -m training.fill stories.jsonl --masked mini-masked --product mini mini-reverse

--product multiplies what LMs of both directions say of the place, p(v) ~ p(v | left) p(v | right), as the baselines do
without a masked model; one LM alone is the plain guess from its side. All see the same places.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from cold.baselines.proposals import MaskedModel, load_masked
from cold.lm.load import load
from cold.lm.masked import logits_at
from cold.lm.model import LanguageModel
from cold.soft import pad
from training.evaluate import read_texts

ROWS = 128  # texts with a hidden token at once
WHOLE = 16  # texts of which every place is asked for
BEST = 10

Said = Iterator[tuple[Tensor, Tensor]]  # logits [places, vocab] and the right tokens [places]


def places(ids: Sequence[int], number: int, every: int) -> range:
    """Every so many tokens of a text, from another place in each."""
    return range(number % every, len(ids), every)


@torch.no_grad()
def masked(model: MaskedModel, texts: Sequence[Sequence[int]], separator: int, every: int) -> Said:
    hidden = [(row, at) for row, ids in enumerate(texts) for at in places(ids, row, every)]
    hidden.sort(key=lambda place: len(texts[place[0]]))
    mask, device = int(model.tokenizer.mask_token_id), model.model.device
    for first in range(0, len(hidden), ROWS):
        some = hidden[first : first + ROWS]
        rows = [[separator, *texts[row][:at], mask, *texts[row][at + 1 :]] for row, at in some]
        ids, there = pad(rows, device)
        at = torch.tensor([at + 1 for _, at in some], device=device)
        yield logits_at(model.model, ids, there, at), torch.tensor([texts[row][at] for row, at in some], device=device)


@torch.no_grad()
def product(lms: Sequence[LanguageModel], texts: Sequence[Sequence[int]], every: int) -> Said:
    for first in range(0, len(texts), WHOLE):
        some = texts[first : first + WHOLE]
        asked = [(row, at) for row, ids in enumerate(some) for at in places(ids, first + row, every)]
        device = lms[0].device
        rows, right = torch.tensor([row for row, _ in asked], device=device), [some[row][at] for row, at in asked]
        total = torch.zeros(len(asked), lms[0].vocab, device=device)
        for lm in lms:
            ids, _ = pad([[lm.separator, *(text[::-1] if lm.reverse else text)] for text in some], device)
            at = [len(some[row]) - 1 - at if lm.reverse else at for row, at in asked]
            states = lm.model.model(input_ids=ids, use_cache=False).last_hidden_state  # padding behind: changes nothing
            logits = lm.model.get_output_embeddings()(states[rows, torch.tensor(at, device=device)])
            total += logits.float().log_softmax(-1)
        yield total, torch.tensor(right, device=device)


def measure(said: Said) -> tuple[float, float, float, int]:
    """Bits of a hidden token, shares of right ones first and among the best ten, and how many there were."""
    bits = first = best = count = 0.0
    for logits, right in said:
        own = logits.gather(1, right[:, None])
        bits += float(-logits.log_softmax(-1).gather(1, right[:, None]).sum()) / math.log(2)
        above = (logits > own).sum(1)
        first, best, count = first + int((above < 1).sum()), best + int((above < BEST).sum()), count + len(right)
    return bits / count, first / count, best / count, int(count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path, help="one text a line, or .jsonl")
    parser.add_argument("--masked", action="append", default=[], help="mini-masked, a folder or a hub id; repeatable")
    parser.add_argument("--product", action="append", nargs="+", default=[], help="one LM, or one of each direction")
    parser.add_argument("--partner", default="mini", help="whose tokenizer")
    parser.add_argument("--most", type=int, help="read only so many texts")
    parser.add_argument("--every", type=int, default=1, help="hide only every so many-th token")
    args = parser.parse_args()
    lm = load(args.partner, dtype="float32")
    texts = [lm.encode(text) for text in read_texts(args.texts, args.most)]
    print(f"{len(texts)} texts\n{'':28} {'bits/token':>10} {'first %':>8} {'best 10 %':>9} {'places':>8}", flush=True)
    for name in args.masked:
        show(name, masked(load_masked(name, str(lm.device)), texts, lm.separator, args.every))
    for names in args.product:
        show(" x ".join(names), product([load(name, dtype="float32") for name in names], texts, args.every))


def show(name: str, said: Said) -> None:
    bits, first, best, count = measure(said)
    print(f"{name:28} {bits:10.3f} {100 * first:8.1f} {100 * best:9.1f} {count:8,}", flush=True)


if __name__ == "__main__":
    main()
