"""Let the right-to-left model say what came before: greedy without repeated phrases, in reading order.

python examples/read_backwards.py "He was late for work." "Everyone clapped."
"""

import sys

import torch

import cold
from cold.text import sentences

ENDINGS = [
    "He was late for work.", "She never went back there.", "The doctor told him to rest.", "They decided to get a dog.",
    "Everyone laughed at him.", "I had to buy a new phone.", "The cake was ruined.", "We went home early.",
    "He won the race.", "She thanked the man and left.",
]  # fmt: skip

lm = cold.load("mini-reverse")
for ending in sys.argv[1:] or ENDINGS:
    ids = lm.encode(" " + ending)  # the space says that something stands before it
    read = torch.tensor([[lm.separator, *reversed(ids)]], device=lm.device)
    out = lm.model.generate(read, max_new_tokens=60, do_sample=False, no_repeat_ngram_size=3, eos_token_id=lm.separator)
    said = sentences.split(lm.decode(out[0].tolist()[::-1]).strip())
    whole = out[0, -1] == lm.separator  # else the first sentence may have lost its beginning
    print(" ".join(said if whole else said[1:]))
