"""The plain paragraphs of a large corpus: short words, moderate length; what everyday English is nearest to.

python -m training.plain corpus/gutenberg.txt.xz --megabytes 45 --out build/plain.txt
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

from training.prepare import WORD, read_lines


def is_plain(text: str, longest: float) -> bool:
    """Words of at most `longest` letters on average."""
    words = WORD.findall(text)
    return 60 <= len(text) <= 800 and bool(words) and sum(map(len, words)) / len(words) <= longest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--megabytes", type=float, default=45)
    parser.add_argument("--longest", type=float, default=4.2, help="letters of a word, on average")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    lines = [line for line in read_lines(args.corpus) if is_plain(line, args.longest)]
    random.Random(args.seed).shuffle(lines)
    size = kept = 0
    while kept < len(lines) and size < args.megabytes * 1e6:
        size += len(lines[kept])
        kept += 1
    args.out.write_text("\n".join(lines[:kept]) + "\n")
    print(f"{kept:,} of {len(lines):,} plain paragraphs, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
