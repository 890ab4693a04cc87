"""A step on fixed buffers, which a GPU replays, walks where the plain loop walks."""

import pytest
import torch

from cold.constraints import Fluency, Future, Keywords, Similarity
from cold.lm import Context
from cold.sampling import AdamLangevin, Langevin, run
from cold.sampling.graph import Track
from cold.sampling.noise import Rows
from cold.sampling.schedules import geometric
from tiny import on, tiny_lm

STEPS, ROWS, LENGTH = 8, 4, 5
SAMPLERS = [Langevin(0.5, geometric(STEPS)), AdamLangevin(0.2, geometric(STEPS))]


def energy(lm):
    """With memory (top_k), with randomness (gumbel), two directions."""
    story = Context(lm, "It fell.", "He was late.", top_k=3, widen=[[7, 9]], temperature=0.1)
    back = Context(on(lm.device.type, tiny_lm(reverse=True)), right="He was late.")
    terms = 0.5 * Fluency(story, detach=True, within=True) + 0.5 * Future(story) + 0.1 * Keywords([[[7], [9, 4]]])
    terms = terms + 0.1 * Similarity([[7, 8, 9]], n=(1, 2), gumbel=True) + 0.2 * Fluency(back, name="back")
    return terms.bind(ROWS, LENGTH)


def start(lm) -> torch.Tensor:
    return 3 * torch.randn(ROWS, LENGTH, lm.vocab, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_track_walks_where_the_plain_loop_walks(sampler):
    lm = tiny_lm()
    bound, y, seeds = energy(lm), start(lm), list(range(ROWS))
    plain = [(state.y.clone(), info) for state, info in run(sampler, y, bound, seeds, STEPS)]

    rows = Rows(seeds)
    track, state = Track(sampler, bound, rows, STEPS), sampler.init(y, bound)
    state, _ = sampler.step(state, bound, rows.at(0), sampler.scales(0))
    for number in range(1, STEPS):
        if number == 4:  # as a watched step does
            state, _ = sampler.step(state, bound, rows.at(number), sampler.scales(number))
        else:
            state, info = track.step(state)
            assert info.step == number
            assert torch.equal(info.energy, plain[number][1].energy)
            assert torch.equal(info.gradient, plain[number][1].gradient)
        assert state.step == number + 1
        assert torch.equal(state.y, plain[number][0])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("watch", [0, 3])
def test_a_recorded_step_walks_where_the_plain_loop_walks(sampler, watch, monkeypatch, caplog):
    lm = on("cuda", tiny_lm())
    bound, y, seeds = energy(lm), start(lm).cuda(), list(range(ROWS))
    replayed = [state.y.clone() for state, _ in run(sampler, y, bound, seeds, STEPS, watch)]
    assert not caplog.records, caplog.text
    monkeypatch.setattr(Track, "_record", lambda self, here: setattr(self, "plain", True))
    plain = [state.y.clone() for state, _ in run(sampler, y, bound, seeds, STEPS, watch)]
    for one, other in zip(replayed, plain, strict=True):
        assert torch.equal(one, other)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_what_cannot_be_recorded_runs_as_it_is_with_one_line_in_the_log(caplog):
    from cold.constraints import Function

    lm = on("cuda", tiny_lm())
    waits = Function(lambda y: y.log_probs[:, 0, int(y.logits[0, 0].argmax())], "waits")  # int() asks the device
    bound = (1.0 * waits).bind(ROWS, LENGTH)
    walk = list(run(SAMPLERS[0], start(lm).cuda(), bound, list(range(ROWS)), STEPS))
    assert len(walk) == STEPS
    assert len(caplog.records) == 1
    assert "cannot be recorded" in caplog.text
