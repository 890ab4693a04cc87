"""The parts named `released`, put together, are the published code: every term, gradient, state and final id.

tests/data/released_trace.* was recorded from the published `decode()` on a random GPT-2 pair (vocabulary 61; the
reverse model's ids are shifted by one): three tasks, three samples, six iterations, with the noise it drew.
"""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import GPT2Config, GPT2LMHeadModel

from cold.constraints import Fluency, Future, Similarity, mean
from cold.lm import Context, LanguageModel
from cold.sampling import AdamLangevin
from cold.sampling.langevin import gradient
from cold.sampling.schedules import staircase
from cold.text.discretize import TopK
from cold.text.initialize import SoftUnroll

DATA = Path(__file__).parent / "data"
TRACE = load_file(DATA / "released_trace.safetensors")
SETTINGS = json.loads((DATA / "released_trace.json").read_text())
SAMPLES, STEPS, TOLERANCE = 3, 6, 2e-5


def model(part: str, vocab: int) -> GPT2LMHeadModel:
    config = GPT2Config(
        vocab_size=vocab, n_positions=64, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
    )
    lm = GPT2LMHeadModel(config)
    weights = {k.removeprefix(f"model.{part}."): v for k, v in TRACE.items() if k.startswith(f"model.{part}.")}
    missing, unexpected = lm.load_state_dict(weights, strict=False)
    assert not unexpected
    assert set(missing) <= {"lm_head.weight"}
    lm.tie_weights()
    return lm


FORWARD = LanguageModel(model("forward", 61), name="forward")
REVERSE = LanguageModel(model("reverse", 62), name="reverse", reverse=True, first_id=1)


class Recorded:
    """The noise that the published code drew in one iteration."""

    def __init__(self, task: str, step: int) -> None:
        self.task, self.step = task, step

    def normal(self, stream: str, shape: tuple[int, int]) -> torch.Tensor:
        return TRACE[f"{self.task}.noise"][self.step] / sigma(self.step)

    def gumbel(self, stream: str, shape: tuple[int, int]) -> torch.Tensor:
        order = {"ngram.1": 0, "ngram.2": 0, "ngram.3": 1}[stream]
        return TRACE[f"{self.task}.gumbel.{order}"][self.step]


sigma = staircase(6, levels=(1, 0.5, 0.1), starts=(0, 2 / 6, 4 / 6))


def released_energy(task: str):
    s = SETTINGS[task]
    widen = [s["keyword_ids"] or s["right_ids"]]
    c, share = s["constraint_weight"], s["forward_share"]
    story = Context(FORWARD, left=s["left_ids"], temperature=1e-3, top_k=s["top_k"], widen=widen, separator=False)
    fluency = Fluency(story, reduction=mean, detach=True, within=True)
    if task == "counterfactual":
        back = Context(REVERSE, temperature=1e-5, separator=False)
        reverse = Fluency(back, name="reverse", reduction=mean, detach=True)
        ngram = Similarity([s["right_ids"]], n=(2, 3), name="ngram", gumbel=True, floor=-20, within=story)
        return (1 - c) * share * fluency + (1 - c) * (1 - share) * reverse + c * ngram, story
    back = Context(REVERSE, right=s["right_ids"], temperature=1e-5, separator=False)
    reverse = Fluency(back, name="reverse", reduction=mean, detach=True, no_echo=True)
    last = Context(FORWARD, s["left_ids"][-1:], s["right_ids"], temperature=0.3, straight_through=True, separator=False)
    future = Future(last, reduction=mean)
    ngram = Similarity([s["keyword_ids"]], n=(1,), name="ngram", gumbel=True, floor=-20)
    weights = ((1 - c) * share, (1 - c) * (1 - share), c, c * s["ngram_weight"])
    energy = weights[0] * fluency + weights[1] * reverse + weights[2] * future + weights[3] * ngram
    return energy, story


@pytest.mark.parametrize("task", list(SETTINGS))
def test_released_parts_equal_the_published_code_in_every_iteration(task):
    energy, story = released_energy(task)
    length = SETTINGS[task]["length"]
    start = TRACE[f"{task}.init"]
    bound = energy.bind(SAMPLES, length)
    sampler = AdamLangevin(0.1, sigma, eps=1e-8 * SAMPLES)  # the published loss is a mean over the batch
    state = sampler.init(start, bound)
    noise = torch.zeros_like(start)
    for n in range(STEPS):
        assert torch.allclose(state.y, start + noise + TRACE[f"{task}.epsilon"][n], atol=1e-4), n
        evaluation, grad = gradient(bound, state, Recorded(task, n))
        for name, score in zip(energy.names, evaluation.scores, strict=True):
            assert torch.allclose(-score, TRACE[f"{task}.{name}"][n], atol=TOLERANCE), (n, name)
        if n == STEPS - 1:  # the published loop evaluates once more and then neither steps nor adds noise
            break
        assert torch.allclose(grad / SAMPLES, TRACE[f"{task}.grad"][n], atol=TOLERANCE), n
        state, _ = sampler.step(state, bound, Recorded(task, n), sampler.scales(n))
        noise = noise + TRACE[f"{task}.noise"][n]
    widen = [SETTINGS[task]["keyword_ids"] or SETTINGS[task]["right_ids"]]
    ids = TopK(SETTINGS[task]["top_k"]).tokens(story, state.y, widen)
    assert ids == TRACE[f"{task}.final_ids"].tolist()


@pytest.mark.parametrize("task", list(SETTINGS))
def test_soft_unrolling_is_the_published_start(task):
    s = SETTINGS[task]
    story = Context(FORWARD, left=s["left_ids"], separator=False)
    start = SoftUnroll().logits(story, s["length"])
    assert torch.allclose(start.expand(SAMPLES, -1, -1), TRACE[f"{task}.init"], atol=TOLERANCE)
