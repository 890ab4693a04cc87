"""Every baseline runs in bf16, and where there is a GPU, there: nothing is left behind on the CPU."""

from dataclasses import replace

import pytest
import torch

from cold.baselines import BASELINES
from cold.baselines.delorean import Settings
from cold.lm.model import LanguageModel
from cold.recipes import preset
from cold.tasks import examples
from cold.text.words import met
from tiny import on, tiny_lm

FEW = Settings(2, 2, 3e-4, 0.88)
SMALL = {
    "delorean": {"abductive": FEW, "counterfactual": FEW, "length": 5, "max_length": 8},
    "neurologic": {"width": 4, "max_length": 12},
    "neurologic-astar": {"width": 3, "max_length": 10, "look_ahead": 2},
    "constrained-beam": {"width": 6, "max_length": 12},
    "cgmh": {"steps": 6, "top": 6, "longest": 8},
    "tsmh": {"steps": 4, "top": 6, "longest": 8},
    "mix-and-match": {"sweeps": 1},
}
LEXICAL = ("neurologic", "neurologic-astar", "constrained-beam", "cgmh", "tsmh")
gpu = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))


def narrow(device: str, lm: LanguageModel) -> LanguageModel:
    moved = on(device, lm)
    return replace(moved, model=moved.model.to(torch.bfloat16))


@pytest.mark.parametrize("device", ["cpu", gpu])
@pytest.mark.parametrize("name", BASELINES)
def test_it_writes_in_bf16_there(name, device):
    task = "lexical" if name in LEXICAL else "counterfactual"
    batch = {
        "lexical": [examples.lexical(["river", "dog"]), examples.lexical(["water"])],
        "counterfactual": [
            examples.counterfactual("The dog ran.", "It was wet."),
            examples.counterfactual("A", "B c."),
        ],
    }[task]
    baseline = BASELINES[name]
    baseline = replace(baseline, write=replace(baseline.write, **SMALL.get(name, {})))
    lm, back = (narrow(device, tiny_lm(reverse=reverse)) for reverse in (False, True))
    found = baseline(preset(task, "fast").with_(samples=3), lm, back, batch)
    assert [len(one.samples) for one in found] == [1 if baseline.single else 3] * 2
    assert all(sample.text for one in found for sample in one.samples)
    if name in LEXICAL:
        assert met(found[1].text, ["water"])


@pytest.mark.parametrize("device", ["cpu", gpu])
def test_delorean_pulls_from_a_right_text_in_bf16_there(device):
    writer = replace(BASELINES["delorean"].write, **SMALL["delorean"])
    batch = [examples.abductive("The dog ran.", "It was wet."), examples.abductive("She sat.", "He left the house.")]
    recipe = preset("abductive", "fast").with_(samples=2)
    found = replace(BASELINES["delorean"], write=writer)(recipe, narrow(device, tiny_lm()), None, batch)
    assert all(sample.text for one in found for sample in one.samples)
