"""What the benchmark compares computes the same thing, and its table can be read by people and by machines."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.literal import Literal
from benchmarks.shapes import make
from benchmarks.step import WEIGHTS, build
from cold.sampling.langevin import State, gradient
from cold.sampling.noise import Rows

ROOT, CPU = Path(__file__).parents[2], torch.device("cpu")


@pytest.mark.parametrize("energy", WEIGHTS)
def test_the_paper_s_loop_has_the_energy_and_the_gradient_of_ours(energy):
    forward, backward = (make("tiny", CPU, torch.float32, way) for way in (False, True))
    draw = torch.Generator().manual_seed(3)
    texts = {
        name: torch.randint(1, 515, (1, n), generator=draw) for name, n in (("left", 5), ("right", 4), ("words", 3))
    }
    y = 3 * torch.randn(2, 6, 515, generator=draw)
    chain = Literal(forward.model, backward.model, [part.expand(2, -1) for part in texts.values()], WEIGHTS[energy])
    wanted, slope = chain.slope(y)

    bound = build(energy, forward, backward, texts).bind(2, 6)
    found, ours = gradient(bound, State(y, 0, bound.start(y)), Rows([0, 1]).at(0))
    assert torch.allclose(found.energy, wanted, rtol=1e-4)
    assert torch.allclose(ours, slope, atol=1e-4 * float(slope.abs().max()))


def test_the_table_and_its_json_say_the_same(tmp_path):
    file = tmp_path / "step.json"
    command = ["-m", "benchmarks.step", "--shape", "tiny", "--samples", "2", "--steps", "3", "--device", "cpu"]
    run = subprocess.run(
        [sys.executable, *command, "--json", str(file)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    (row,) = json.loads(file.read_text())
    last = run.stdout.splitlines()[-1].split()
    assert last[:2] == ["tiny", "2"]
    assert float(last[3]) == pytest.approx(1e3 * row["eager"], abs=0.01)
    assert row["ratio"] == pytest.approx(row["eager"] / row["limit"])
