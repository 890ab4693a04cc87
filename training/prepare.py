"""Text to ids: split, drop what does not read like text, drop duplicates, shuffle; separator at both ends of each.

    python -m training.prepare --model smollm2 --out build/data build/samples captions.txt wiki.txt.xz:20e6

A source is a text file (one document a line, .xz or .gz if you like) or a folder of samples; `:20e6` takes that many
tokens of it at most. Samples keep the temperature they were drawn at, so that training can undo it.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import lzma
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from multiprocessing import Pool
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cold.lm import bundled, catalog
from cold.lm.model import separator_of

CHUNK = 4000  # documents handed to a worker at once
MARKUP = re.compile(r"[#*_|<>{}\\=~^\[\]]|https?:|www\.|^\W*\d+[.)]|:$", re.MULTILINE)
WORD = re.compile(r"[\w']+")
SHORT, LONG, REPEAT = 20, 2000, 5  # characters; and the longest n-gram of words that may stand twice

_tokenizer: Any = None


class Piece(NamedTuple):
    """What a worker makes of a chunk: digests, lengths and joined ids of documents; how many were dropped for what."""

    digests: list[bytes]
    sizes: list[int]
    ids: np.ndarray
    dropped: Counter[str]


def refuse(text: str) -> str:
    """Why a text is not to be learned, or ''."""
    if not SHORT <= len(text) <= LONG:
        return "too short or too long"
    if text[-1] not in ".!?\"'" and text.count(" ") > 15:
        return "unfinished"
    if MARKUP.search(text):
        return "markup"
    if not text.isascii() and sum(ord(c) > 0x2100 for c in text):
        return "other script"
    words = WORD.findall(text.lower())
    if len(words) < 4:
        return "too short or too long"
    grams = [tuple(words[i : i + REPEAT]) for i in range(len(words) - REPEAT + 1)]
    return "loop" if len(set(grams)) < len(grams) * 0.97 - 0.5 else ""


def digest(text: str) -> bytes:
    """Two texts with the same words are the same text."""
    return hashlib.blake2b(" ".join(WORD.findall(text.lower())).encode(), digest_size=8).digest()


def split_samples(rows: np.ndarray, separator: int) -> Iterator[str]:
    """Lines of sampled rows; what follows the separator, and a last line that was cut off, is left out."""
    for row in rows:
        ends = np.flatnonzero(row == separator)
        text = _tokenizer.decode(row[: ends[0]] if len(ends) else row, skip_special_tokens=True)
        lines = text.split("\n")
        yield from (line.strip() for line in (lines if len(ends) else lines[:-1]) if line.strip())


def work(chunk: list[str] | tuple[Path, int]) -> Piece:
    texts: Iterable[str] = chunk if isinstance(chunk, list) else split_samples(np.load(chunk[0]), chunk[1])
    kept, dropped = [], Counter[str]()
    for text in texts:
        reason = refuse(text)
        dropped[reason or "kept"] += 1
        if not reason:
            kept.append(text)
    rows = _tokenizer(kept, add_special_tokens=False)["input_ids"] if kept else []
    ids = np.fromiter((i for row in rows for i in row), dtype=np.uint32)
    return Piece([digest(text) for text in kept], [len(row) for row in rows], ids, dropped)


def start_worker(folder: str) -> None:
    from transformers import AutoTokenizer

    global _tokenizer
    _tokenizer = bundled.tokenizer() if folder in bundled.names() else AutoTokenizer.from_pretrained(folder)
    _tokenizer.model_max_length = 1 << 30


def temperature_of(path: Path) -> float:
    told = path / "temperature.txt"
    return float(told.read_text()) if told.exists() else 1.0


def chunks(path: Path, separator: int) -> Iterator[list[str] | tuple[Path, int]]:
    if path.is_dir():
        yield from ((file, separator) for file in sorted(path.glob("*.npy")))
        return
    lines = read_lines(path)
    while chunk := list(islice(lines, CHUNK)):
        yield chunk


def read_lines(path: Path) -> Iterator[str]:
    opened = {".xz": lzma.open, ".gz": gzip.open}.get(path.suffix, open)
    with opened(path, "rt", encoding="utf-8") as file:
        yield from (line.strip() for line in file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+", metavar="SOURCE[:TOKENS]")
    parser.add_argument("--model", default="smollm2", help="whose tokenizer: a name or a folder")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    folder = str(catalog.find(args.model) or args.model)
    start_worker(folder)
    separator = separator_of(_tokenizer, args.model)
    pile = Pile()
    report: dict[str, Any] = {}
    with Pool(args.workers, start_worker, (folder,)) as pool:
        for source in args.sources:
            name, _, limit = source.partition(":")
            most, before, counts = float(limit or "inf"), pile.tokens, Counter[str]()
            heat = temperature_of(Path(name))
            for piece in pool.imap(work, chunks(Path(name), separator)):
                counts += piece.dropped
                counts["duplicate"] += pile.add(piece, heat)
                if pile.tokens - before >= most:
                    break
            counts["kept"] -= counts["duplicate"]
            report[Path(name).name] = {"tokens": pile.tokens - before, **counts}
            print(Path(name).name, json.dumps(report[Path(name).name]), flush=True)
    stream, heats = pile.stream(separator, args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    np.save(args.out / "temperatures.npy", heats)
    np.save(args.out / "ids.npy", stream.astype(np.uint16) if len(_tokenizer) <= 1 << 16 else stream)
    report["all"] = {"documents": len(pile.seen), "tokens": pile.tokens}
    (args.out / "counts.json").write_text(json.dumps(report, indent=1))
    print("all", json.dumps(report["all"]), flush=True)


class Pile:
    """Documents without their duplicates."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()
        self.ids: list[np.ndarray] = []
        self.spans: list[np.ndarray] = []
        self.heats: list[np.ndarray] = []
        self.at = self.tokens = 0

    def add(self, piece: Piece, heat: float) -> int:
        """How many of the piece were known already."""
        fresh = [mark not in self.seen and not self.seen.add(mark) for mark in piece.digests]  # type: ignore[func-returns-value]
        sizes = np.asarray(piece.sizes, dtype=np.int64)
        starts = self.at + np.cumsum(sizes) - sizes
        self.spans.append(np.stack([starts, sizes], 1)[fresh])
        self.heats.append(np.full(sum(fresh), heat, dtype=np.float16))
        self.ids.append(piece.ids)
        self.at += len(piece.ids)
        self.tokens += int(sizes[fresh].sum())
        return len(fresh) - sum(fresh)

    def stream(self, separator: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """sep doc sep doc ... sep, shuffled, and the temperature of each document."""
        spans, ids = np.concatenate(self.spans), np.concatenate([*self.ids, [separator]])
        order = np.random.default_rng(seed).permutation(len(spans))
        starts, sizes = spans[order].T
        ends = np.cumsum(sizes + 1)  # each document brings the separator before it
        source = np.repeat(starts - (ends - sizes), sizes + 1) + np.arange(ends[-1])
        source[ends - sizes - 1] = len(ids) - 1
        return np.append(ids[source], separator).astype(np.uint32), np.concatenate(self.heats)[order]


if __name__ == "__main__":
    main()
