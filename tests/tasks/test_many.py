"""Many examples in batches: each comes back once, with the text it has alone, whatever the plan."""

import logging

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cold.errors import ColdError
from cold.recipes import preset
from cold.tasks import decode, examples, many
from cold.tasks.many import decode_many, plan
from tiny import SENTENCES, tiny_lm

LM = tiny_lm()
RECIPE = preset("abductive", "fast").with_(samples=2, steps=3, length=5)
PAIRS = [examples.abductive(left, right) for left, right in zip(SENTENCES[:9], SENTENCES[20:29], strict=True)]
GIB = 1 << 30


def texts(found) -> dict[int, list[str]]:
    return {number: [sample.text for sample in decoding.samples] for number, decoding in found}


def test_every_example_has_the_texts_it_has_alone():
    alone = {i: [s.text for s in decode(RECIPE, LM, None, [pair])[0].samples] for i, pair in enumerate(PAIRS)}
    together = texts(decode_many(RECIPE, LM, None, PAIRS))
    assert together == alone
    assert texts(decode_many(RECIPE, LM, None, PAIRS)) == together


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.integers(1, 64))
def test_a_plan_has_every_example_once_and_longer_ones_first(lengths, megabytes):
    given = [examples.abductive("dog " * (n + 1), "It fell.") for n in lengths]
    batches = plan(RECIPE, LM, given, megabytes << 20)
    assert sorted(i for batch in batches for i in batch) == list(range(len(given)))
    flat = [lengths[i] for batch in batches for i in batch]
    assert flat == sorted(lengths, reverse=True)
    assert batches == plan(RECIPE, LM, given, megabytes << 20)


def test_more_memory_makes_fewer_batches():
    counts = [len(plan(RECIPE, LM, PAIRS * 4, size)) for size in (1 << 20, 8 << 20, 16 * GIB)]
    assert counts[0] == len(PAIRS) * 4
    assert counts[0] > counts[1] > counts[2]


def test_examples_with_other_terms_are_not_mixed():
    given = [*PAIRS[:2], examples.abductive("The dog ran.", "It was there."), PAIRS[2]]
    assert not given[2].keywords
    batches = plan(RECIPE, LM, given, 16 * GIB)
    assert [2] in batches
    assert len(batches) == 2


def test_out_of_memory_halves_the_batch_and_loses_nothing(monkeypatch, caplog):
    def small(recipe, lm, reverse, batch):
        if len(batch) > 2:
            raise torch.OutOfMemoryError("too much")
        return decode(recipe, lm, reverse, batch)

    wanted = texts(decode_many(RECIPE, LM, None, PAIRS[:5]))
    monkeypatch.setattr(many, "decode", small)
    with caplog.at_level(logging.WARNING, "cold"):
        assert texts(decode_many(RECIPE, LM, None, PAIRS[:5])) == wanted
    assert [record.getMessage().split(" do not")[0] for record in caplog.records] == ["5 examples", "3 examples"]


def test_one_example_that_does_not_fit_is_an_error_in_one_line(monkeypatch):
    def never(*_):
        raise torch.OutOfMemoryError("too much")

    monkeypatch.setattr(many, "decode", never)
    with pytest.raises(ColdError, match="example 0 alone does not fit into the memory of cpu: take fewer samples"):
        list(decode_many(RECIPE, LM, None, PAIRS[:1]))
