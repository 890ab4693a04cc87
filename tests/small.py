"""Small jobs: a decoding task for the tiny models with every kind of term, and a model whose answers are known."""

from collections.abc import Sequence
from itertools import pairwise
from types import SimpleNamespace

import torch

from cold.constraints import Energy, Fluency, Future, Keywords, Similarity
from cold.decoder import Decoder
from cold.lm import Context, LanguageModel
from cold.sampling import AdamLangevin
from cold.sampling.schedules import staircase
from cold.text import complete, discretize, initialize, select
from cold.text.problems import Example, Problems
from cold.text.words import word_ids
from tiny import VOCAB, tiny_tokenizer

LEFTS = ("The dog ran.", "She went to the store to buy some bread and milk.")
RIGHTS = ("He was late for school because the bus did not come.", "It fell.")
WORDS = (("river",), ("water", "door"))


def small_energy(story: Context, back: LanguageModel | None = None, words: Sequence[Sequence[str]] = WORDS) -> Energy:
    """The paper's terms, for a story with texts on both sides."""
    pieces = [[word_ids(story.lm, word) for word in row] for row in words]
    targets = [[i for ids in row for i in ids] for row in pieces]
    energy = 0.5 * Fluency(story) + 0.3 * Future(story)
    energy = energy + 2.0 * Keywords(pieces) + 0.5 * Similarity(targets, n=(1, 2))
    if back is not None:
        energy = energy + 0.2 * Fluency(Context(back, right=story.right), name="fluency_reverse")
    return energy


def small_problems(
    lm: LanguageModel, back: LanguageModel | None = None, examples: Sequence[int] = (0, 1), length: int = 6
) -> Problems:
    """The given ones of two examples, whose texts differ in length and number of words."""
    told = [Example(left=LEFTS[i], right=RIGHTS[i], words=WORDS[i], keywords=WORDS[i]) for i in examples]
    story = Context(lm, left=[e.left for e in told], right=[e.right for e in told])
    return Problems(story, small_energy(story, back, [e.words for e in told]), length, tuple(told))


def small_decoder(steps: int = 3, **stages) -> Decoder:
    parts = {
        "initialize": initialize.Sampled(),
        "sampler": AdamLangevin(0.2, staircase(steps, scale=0.3)),
        "steps": steps,
        "discretize": discretize.TopK(5),
        "complete": complete.GreedyCompletion(max_length=12, no_repeat=3),
        "rule": select.careful(select.abductive),
    }
    return Decoder(**{**parts, **stages})


class Bigram(torch.nn.Module):
    """A model that knows only the token before: its prediction after token v is row v of a table."""

    def __init__(self, table: torch.Tensor) -> None:
        super().__init__()
        self.embeddings = torch.nn.Embedding.from_pretrained(torch.eye(len(table)))
        self.output = torch.nn.Linear(len(table), len(table), bias=False)
        self.output.weight = torch.nn.Parameter(table.T)
        self.config = SimpleNamespace(get_text_config=lambda: SimpleNamespace(max_position_embeddings=64))

    def get_input_embeddings(self):
        return self.embeddings

    def get_output_embeddings(self):
        return self.output

    def forward(self, inputs_embeds, past_key_values, attention_mask, position_ids, use_cache):
        return SimpleNamespace(logits=self.output(inputs_embeds))


def scripted(*texts: str) -> LanguageModel:
    """A bigram over the tiny vocabulary that writes the given texts, and nothing else of its own accord."""
    table = torch.zeros(VOCAB, VOCAB)
    for text in texts:
        ids = tiny_tokenizer().encode(text, add_special_tokens=False)
        for token, following in pairwise(ids):
            table[token, following] = 10.0
    return LanguageModel(Bigram(table), tiny_tokenizer(), name="scripted")
