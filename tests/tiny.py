"""A language model that fits into a test: two random layers and a real tokenizer, made in memory within a second.

`tiny_lm()` reads and writes text like any other model; its predictions are peaked but mean nothing.
"""

from copy import deepcopy
from dataclasses import replace
from functools import cache

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    OPTConfig,
    OPTForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from cold.lm import LanguageModel

SEPARATOR = "<|endoftext|>"
ARCHS = ("llama", "gpt2", "opt", "neox", "qwen", "gemma")
WINDOW = 512  # room for the style examples of the presets
SPREAD = 0.5
VOCAB = 512  # 1 separator, 256 bytes, 255 merges: common words are one token, others two to five

SENTENCES = """
The dog ran to the river and drank some water.
A cat sat on the mat in the warm sun.
She went to the store to buy some bread and milk.
He was late for school because the bus did not come.
They walked in the park with the dog every morning.
The man gave his wife a book for her birthday.
It rained all day, so we stayed at home and played a game.
My friend has a new car that is very fast.
The children were happy to see the snow.
I made a cake for the party, but nobody came.
Her brother lost his phone on the train.
The teacher asked the class to read the first page.
We had dinner at a small place near the river.
He wanted to learn how to play the guitar.
She found an old letter under the bed.
The boy fell from the tree and broke his arm.
After work they went to see a movie.
The woman bought a red dress and a green hat.
It was a cold night and the wind was strong.
The baby cried until her mother came home.
Tom felt sick, so he went to see a doctor.
The doctor told him to rest and drink water.
Anna was afraid of the dark when she was a child.
Ben took his dog for a walk along the beach.
They saw a big fish in the clear water.
The train was late again, and the people were angry.
She put the book on the table and closed her eyes.
He opened the door and saw nobody there.
A young man stood on the stage and sang a song.
The girl kicked the ball over the fence.
We drove to the mountains to watch the sun go down.
The farmer sold his horse to a man from the city.
There was nothing in the box but an old key.
I was tired because I had worked all night.
The team won the game in the last minute.
Everyone cheered when the team came back.
She wrote a letter to her old friend.
The king had a daughter who loved to dance.
He cut the bread with a knife and put butter on it.
The house on the hill was empty for many years.
You should never swim alone in the sea.
The bird built a nest in the tall tree.
His father was a good man who worked hard.
They painted the walls of the room blue.
When the rain stopped, the sun came out.
The boat went down the river in the morning.
Nobody knew why the old woman laughed.
She decided to take the job in the city.
The dog barked at the man who brought the letters.
We ate bread and cheese on the grass.
The cook put too much salt in the soup.
He ran as fast as he could, but he missed the bus.
The students were ready for the test.
A fire started in the kitchen and burned the house.
Luckily, all of the people got out in time.
The window was open and the room was cold.
She smiled and gave him her hand.
In the end they were happy and went home.
The lake was frozen and the children played on the ice.
He never saw the dog again.
""".strip().splitlines()


@cache
def tiny_lm(seed: int = 0, vocab: int = VOCAB, reverse: bool = False, arch: str = "llama") -> LanguageModel:
    """A random model in fp32; a `vocab` above VOCAB pads the embedding table. Treat it as read-only: it is shared."""
    name = f"tiny-{arch}" + ("-reverse" if reverse else "")
    return LanguageModel(_model(arch, vocab, seed), tiny_tokenizer(), name=name, reverse=reverse)


def on(device: str, lm: LanguageModel) -> LanguageModel:
    """A copy of the model there."""
    return replace(lm, model=deepcopy(lm.model).to(device))


@cache
def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE, so every text comes back as it was; the separator is token 0."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=[SEPARATOR],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(SENTENCES, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token=SEPARATOR, eos_token=SEPARATOR)


def _model(arch: str, vocab: int, seed: int) -> PreTrainedModel:
    """Weights wide enough that the prediction depends on every token and is far from uniform."""
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    common = {
        "vocab_size": vocab,
        "max_position_embeddings": WINDOW,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "initializer_range": SPREAD,
        "pad_token_id": None,  # a padding token would have a zero embedding
    }
    build = {
        "llama": lambda: LlamaForCausalLM(LlamaConfig(**common, **size, intermediate_size=64, num_key_value_heads=2)),
        "gpt2": lambda: GPT2LMHeadModel(GPT2Config(**common, n_embd=32, n_layer=2, n_head=4)),
        "opt": lambda: OPTForCausalLM(
            OPTConfig(**_but(common, "initializer_range"), **size, init_std=SPREAD, ffn_dim=64, word_embed_proj_dim=32)
        ),
        "neox": lambda: GPTNeoXForCausalLM(GPTNeoXConfig(**common, **size, intermediate_size=64)),
        "qwen": lambda: Qwen2ForCausalLM(Qwen2Config(**common, **size, intermediate_size=64, num_key_value_heads=2)),
        "gemma": lambda: Gemma3ForCausalLM(
            Gemma3TextConfig(
                **common,
                **size,
                intermediate_size=64,
                num_key_value_heads=2,
                head_dim=8,
                sliding_window=8,
                layer_types=["sliding_attention", "full_attention"],
            )
        ),
    }
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build[arch]()


def _but(settings: dict, name: str) -> dict:
    return {key: value for key, value in settings.items() if key != name}
