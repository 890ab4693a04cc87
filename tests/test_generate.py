"""`model.generate(..., custom_generate=cold_generate)`: COLD for people who stay in transformers."""

import pytest
import torch

from cold import ColdError, cold_generate
from tiny import tiny_lm

CONSTRAINTS = ({"words": ["dog"]}, {"right": "The man sat in the park."}, {"ending": "The dog ran home."})


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_generate_returns_prompt_and_text_as_ids(constraint):
    lm = tiny_lm()
    ids = torch.tensor([lm.encode("The dog ran.")])
    out = lm.model.generate(
        ids,
        custom_generate=cold_generate,
        cold_tokenizer=lm.tokenizer,
        samples=2,
        steps=2,
        max_new_tokens=9,
        **constraint,
    )
    assert out.shape[0] == 1
    assert out.shape[1] > ids.shape[1]
    assert out[0, : ids.shape[1]].tolist() == ids[0].tolist()
    assert not lm.banned[out[0, ids.shape[1] :]].any()


def test_the_same_seed_gives_the_same_ids():
    lm = tiny_lm()
    ids = torch.tensor([lm.encode("The dog ran.")])
    one, two = (
        cold_generate(lm.model, ids, ["dog"], samples=2, steps=2, seed=3, cold_tokenizer=lm.tokenizer) for _ in "ab"
    )
    assert one.tolist() == two.tolist()


def test_every_preset_takes_a_prompt():
    lm = tiny_lm()
    ids = torch.tensor([lm.encode("The dog ran.")])
    options = {"samples": 1, "steps": 2, "cold_tokenizer": lm.tokenizer}
    for name in ("released", "paper"):
        with pytest.warns(UserWarning, match="left out"):
            assert cold_generate(lm.model, ids, ["dog"], preset_name=name, **options).shape[1] > ids.shape[1]


def test_mistakes_are_said_in_one_line():
    lm = tiny_lm()
    ids = torch.tensor([lm.encode("The dog ran.")])
    with pytest.raises(ColdError, match="no tokenizer beside model"):
        cold_generate(lm.model, ids, words=["dog"])
    with pytest.raises(ColdError, match="needs one constraint"):
        cold_generate(lm.model, ids, cold_tokenizer=lm.tokenizer)
    with pytest.raises(ColdError, match="one prompt at a time"):
        cold_generate(lm.model, ids.repeat(2, 1), words=["dog"], cold_tokenizer=lm.tokenizer)
