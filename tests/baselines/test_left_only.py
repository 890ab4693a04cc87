"""The LM alone: greedy, drawn, and drawn from less; and asked in words."""

import pytest
import torch

from cold.baselines import BASELINES, LeftOnly, Prompt
from cold.baselines.prompt import ask, instruction
from cold.recipes import preset
from cold.tasks import examples
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


def test_a_cut_never_mixes_rows():
    logits = torch.randn(5, 40, generator=torch.Generator().manual_seed(0))
    writer = LeftOnly(top_k=7, top_p=0.8)
    assert torch.equal(writer._cut(logits), torch.cat([writer._cut(row[None]) for row in logits]))


@pytest.mark.parametrize("name", ["left-only", "left-only-greedy", "left-only-top-k", "left-only-nucleus", "prompt"])
def test_a_baseline_is_called_as_the_decoder_is(name):
    batch = [examples.abductive("The dog ran.", "It was wet."), examples.abductive("She sat.", "He left.")]
    recipe = preset("abductive", "fast").with_(samples=2)
    found = BASELINES[name](recipe, tiny_lm(), None, batch)
    assert [len(one.samples) for one in found] == [1 if name == "left-only-greedy" else 2] * 2
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
