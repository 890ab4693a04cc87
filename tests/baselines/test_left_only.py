"""The LM alone: greedy, drawn, and drawn from less; and asked in words."""

import pytest
import torch

from cold.baselines import BASELINES, LeftOnly, LeftOnlyBeam, Prompt, left_only
from cold.baselines.prompt import ask, instruction
from cold.recipes import preset
from cold.tasks import examples
from cold.text import sentences
from small import small_problems
from tiny import tiny_lm


@pytest.mark.parametrize(
    ("writer", "kept"),
    [
        (LeftOnly(), [0, 1, 2, 3]),
        (LeftOnly(top_k=2), [0, 2]),
        (LeftOnly(top_k=9), [0, 1, 2, 3]),
        (LeftOnly(top_p=0.3), [2]),  # the likeliest always stays
        (LeftOnly(top_p=0.7), [0, 2]),  # 0.5 is not enough, 0.75 is
        (LeftOnly(top_k=3, top_p=0.99), [0, 1, 2]),
    ],
)
def test_what_it_draws_from_by_hand(writer, kept):
    logits = torch.tensor([[0.25, 0.15, 0.5, 0.1]]).log()
    assert torch.isfinite(writer._cut(logits))[0].nonzero()[:, 0].tolist() == kept


def test_a_nucleus_larger_than_the_head_is_found_by_sorting(monkeypatch):
    logits = torch.randn(5, 40, generator=torch.Generator().manual_seed(0))
    logits[0, 3] = 9.0  # the head is enough for this row alone
    whole = LeftOnly(top_p=0.8)._cut(logits)
    monkeypatch.setattr(left_only, "HEAD", 2)
    assert torch.equal(LeftOnly(top_p=0.8)._cut(logits), whole)


def test_a_beam_that_forgets_nothing_finds_the_likeliest_sentence():
    """Sentences of two tokens, the second of which ends them: the best of all pairs."""
    lm = tiny_lm()
    problems = small_problems(lm, examples=(0,))
    last = left_only.finals(lm).nonzero()[:, 0]
    first = (~left_only.finals(lm) & ~lm.banned).nonzero()[:, 0]
    before = problems.story.prefix
    behind = before.select([0] * len(first)).append_ids(first)
    pairs = before.logits.log_softmax(-1)[0, first, None] + behind.logits.log_softmax(-1)[:, last]
    best = pairs.flatten().sort(descending=True).indices.tolist()
    texts = [lm.decode([int(first[i // len(last)]), int(last[i % len(last)])]) for i in best]
    wanted = sentences.clean(next(text for text in texts if sentences.is_complete(text)))
    beam = LeftOnlyBeam(width=lm.vocab, max_length=2, min_length=2, prune_factor=10**9)
    assert beam(problems, None, [0]) == [wanted]


def test_a_cut_never_mixes_rows():
    logits = torch.randn(5, 40, generator=torch.Generator().manual_seed(0))
    writer = LeftOnly(top_k=7, top_p=0.8)
    assert torch.equal(writer._cut(logits), torch.cat([writer._cut(row[None]) for row in logits]))


NAMES = ["left-only", "left-only-greedy", "left-only-beam", "left-only-top-k", "left-only-nucleus", "prompt"]


@pytest.mark.parametrize("name", NAMES)
def test_a_baseline_is_called_as_the_decoder_is(name):
    batch = [examples.abductive("The dog ran.", "It was wet."), examples.abductive("She sat.", "He left.")]
    recipe = preset("abductive", "fast").with_(samples=2)
    found = BASELINES[name](recipe, tiny_lm(), None, batch)
    assert [len(one.samples) for one in found] == [1 if BASELINES[name].single else 2] * 2
    alone = BASELINES[name](recipe, tiny_lm(), None, batch[1:])
    assert [s.text for s in alone[0].samples] == [s.text for s in found[1].samples]


@pytest.mark.parametrize(
    ("example", "parts"),
    [
        (examples.lexical(["dog", "big park"]), ["dog, big park"]),
        (examples.abductive("A began.", "B ended."), ["First: A began.", "Last: B ended."]),
        (examples.counterfactual("A began.", "B ended."), ["A began.", "no longer fits: B ended."]),
    ],
)
def test_the_instruction_holds_what_the_example_gives(example, parts):
    assert all(part in instruction(example) for part in parts)


def test_a_chat_model_is_asked_in_its_own_form(monkeypatch):
    lm = tiny_lm()
    assert lm.decode(ask(lm, "Say it.")).strip() == "Say it."
    form = "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}"
    form += "{% if add_generation_prompt %}<me>{% endif %}"
    monkeypatch.setattr(lm.tokenizer, "chat_template", form)
    assert lm.decode(ask(lm, "Say it.")) == "<user>Say it.<me>"
    assert Prompt().sampler.top_p == 0.9
