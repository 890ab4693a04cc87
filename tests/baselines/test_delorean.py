"""DELOREAN by hand: one backward step, one forward mixture, and what each task pulls with."""

import pytest
import torch

from cold.baselines import BASELINES
from cold.baselines.delorean import Delorean, Settings, backward
from cold.errors import ColdError
from cold.recipes import build, preset
from cold.tasks import examples
from cold.tasks.solve import seeds
from tiny import tiny_lm

SHORT = Settings(3, 2, 3e-4, 0.88)


def problems(task, batch, samples=2):
    recipe = preset(task, "fast").with_(samples=samples)
    job = build(recipe, tiny_lm(), None, batch)
    return job.problems, seeds(recipe, job)


def test_a_backward_step_is_the_gradients_direction_times_a_part_of_the_logits_own_length():
    y = torch.tensor([[[3.0, 4.0]], [[0.0, 2.0]]])  # of norms 5 and 2
    slope = torch.tensor([[[0.0, 10.0]], [[6.0, 8.0]]])  # of norms 10 and 10
    moved = backward(y, lambda _: slope, Settings(1, 1, 0.1, 0.9))
    # 4 - 0.1 * 5 * 10 / 10 = 3.5;   0 - 0.1 * 2 * 0.6 = -0.12;   2 - 0.1 * 2 * 0.8 = 1.84
    assert torch.allclose(moved, torch.tensor([[[3.0, 3.5]], [[-0.12, 1.84]]]))


def test_each_iteration_starts_from_the_one_before():
    y = torch.tensor([[[3.0, 4.0]]])
    moved = backward(y, lambda y: y, Settings(1, 2, 0.1, 0.9))  # straight at the origin: a tenth each time
    assert torch.allclose(moved, 0.81 * y)


def test_the_forward_pass_mixes_what_was_pulled_with_what_the_lm_says():
    batch, _ = problems("abductive", [examples.abductive("The dog ran.", "The dog was happy.")])
    lm = tiny_lm()
    pulled = torch.randn(1, 3, lm.vocab, generator=torch.Generator().manual_seed(0))
    mixed, _ = Delorean(max_length=4)._forward(batch, pulled, torch.ones(1, 3, dtype=torch.bool), 0.25)
    said = batch.story.prefix.logits
    said = torch.where(lm.banned, said.amin(-1, keepdim=True), said)
    assert torch.allclose(mixed[:, 0], 0.25 * said + 0.75 * pulled[:, 0])
    first = lm.embed_soft((mixed[:, :1] / 0.1).softmax(-1))  # which the LM reads before the second token
    said = batch.story.prefix.append(first).logits
    said = torch.where(lm.banned, said.amin(-1, keepdim=True), said)
    assert torch.allclose(mixed[:, 1], 0.25 * said + 0.75 * pulled[:, 1], atol=1e-5)


def test_pulling_makes_the_right_text_likelier_and_the_old_ending_too():
    writer = Delorean(length=6)
    for task, batch in (
        ("abductive", [examples.abductive("The dog ran.", "It was wet.")]),
        ("counterfactual", [examples.counterfactual("The dog ran.", "It was wet.")]),
    ):
        found, _ = problems(task, batch)
        y, _, pull, _ = writer._between(found) if task == "abductive" else writer._rewrite(found)
        moved = backward(y, pull, Settings(1, 5, 1e-2, 0.9))
        before, after = pull(y), pull(moved)
        assert (before * (moved - y)).sum() < 0  # downhill
        assert not torch.equal(before, after)


@pytest.mark.parametrize("task", ["abductive", "counterfactual"])
def test_samples_are_spread_over_the_passes_and_rows_do_not_depend_on_each_other(task):
    make = examples.abductive if task == "abductive" else examples.counterfactual
    batch = [make("The dog ran to the river.", "It was wet and cold."), make("She went home.", "He left.")]
    writer = Delorean(SHORT, SHORT, length=4, max_length=6)
    together, rows = problems(task, batch)
    texts = writer(together, None, rows)
    assert len(texts) == 4
    alone, rows = problems(task, batch[1:])
    assert writer(alone, None, rows) == texts[2:]


def test_a_task_without_a_look_back_is_refused():
    found, rows = problems("lexical", [examples.lexical(["dog"])])
    with pytest.raises(ColdError, match="use it for abductive or counterfactual"):
        BASELINES["delorean"].write(found, None, rows)
