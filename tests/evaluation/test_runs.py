"""A run file: whole, resumable, the same however often the run was stopped."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from cold.errors import ColdError
from cold.evaluation import runs
from cold.evaluation.datasets import read, sample_file
from cold.recipes import preset
from tiny import tiny_lm

ROOT = Path(__file__).parents[2]
LM = tiny_lm()
ITEMS = list(read("abductive", sample_file("abductive")))[:5]
RECIPE = preset("abductive", "fast").with_(samples=2, steps=3, length=5, style=["He ran. She sat. They left."])


def head(method: str = "cold", recipe=RECIPE) -> dict:
    return runs.header("abductive", method, recipe, LM, None, {"file": "x", "limit": None})


def go(out: Path, method: str = "cold", items=ITEMS) -> list[runs.Record]:
    return list(runs.execute(out, head(method), items, RECIPE, LM, None))


def without_times(out: Path) -> list[dict]:
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "run.jsonl"
    go(out)
    return out


def test_a_run_has_a_header_and_one_line_per_example(whole):
    top, *lines = without_times(whole)
    assert top["kind"] == "header"
    assert top["configuration"]["steps"] == 3
    assert top["model"]["name"] == LM.name
    assert sorted(line["id"] for line in lines) == sorted(item.id for item in ITEMS)
    for line in lines:
        assert len(line["samples"]) == 2
        assert line["text"] == line["samples"][line["selected"]]["text"]
        assert line["trace"]["step"] == [0, 1, 2]
        assert set(line["trace"]["terms"]) == set(line["samples"][0]["terms"])


def test_a_trace_is_the_examples_own_and_is_thinned(whole):
    _, lines = runs.read_run(whole)
    assert len({json.dumps(line["trace"]) for line in lines}) == len(lines)
    alone = next(iter(runs.decode(RECIPE.with_(steps=250), LM, None, [ITEMS[0].example])))
    thinned = runs.thin(alone)
    assert len(thinned["step"]) == runs.POINTS
    assert (thinned["step"][0], thinned["step"][-1]) == (0, 249)


def test_a_seed_comes_from_the_id_so_equal_inputs_differ(tmp_path):
    twin = ITEMS[0]._replace(id="twin", example=replace(ITEMS[0].example, key="twin"))
    records = go(tmp_path / "run.jsonl", items=[ITEMS[0], twin])
    energies = [[sample["soft_energy"] for sample in record.line["samples"]] for record in records]
    assert energies[0] != energies[1]


@pytest.mark.parametrize("kept", [1, 2, 4])
@pytest.mark.parametrize("torn", [b"", b'{"kind": "exa', b'{"kind": "example"}'])
def test_a_stopped_run_goes_on_to_the_same_file(whole, tmp_path, kept, torn):
    lines = whole.read_bytes().splitlines(keepends=True)
    out = tmp_path / "run.jsonl"
    out.write_bytes(b"".join(lines[:kept]) + torn)
    records = go(out)
    assert [record.fresh for record in records] == [False] * (kept - 1) + [True] * (len(lines) - kept)
    assert without_times(out) == without_times(whole)


def test_a_whole_run_is_left_as_it_is(whole):
    before = whole.read_bytes()
    assert not any(record.fresh for record in go(whole))
    assert whole.read_bytes() == before


def test_another_configuration_is_refused_with_the_difference(whole):
    before = whole.read_bytes()
    other = RECIPE.with_(steps=7)
    with pytest.raises(ColdError, match=r"configuration\.steps: 3 then, 7 now"):
        list(runs.execute(whole, head(recipe=other), ITEMS, other, LM, None))
    assert whole.read_bytes() == before


STRANGE = [b"hello", b"hello\nworld\n", b'{"a": 1}\n', b'{"a": 1}\n{"b": 2}', b'{"kind": "header"}\noops\n{"b": 2}\n']


@pytest.mark.parametrize("content", STRANGE)
def test_a_file_that_is_no_run_is_refused_and_not_touched(tmp_path, content):
    out = tmp_path / "mine.jsonl"
    out.write_bytes(content)
    with pytest.raises(ColdError):
        go(out)
    assert out.read_bytes() == content


def test_a_line_damaged_in_the_middle_is_refused_and_nothing_is_lost(whole, tmp_path):
    lines = whole.read_bytes().splitlines(keepends=True)
    out = tmp_path / "run.jsonl"
    out.write_bytes(b"".join([*lines[:2], b"oops\n", *lines[3:]]))
    before = out.read_bytes()
    with pytest.raises(ColdError, match="damaged in the middle"):
        go(out)
    assert out.read_bytes() == before


@pytest.mark.parametrize("kept", [0, 1, 9, 40])
def test_half_a_header_is_begun_anew(whole, tmp_path, kept):
    out = tmp_path / "run.jsonl"
    out.write_bytes(whole.read_bytes()[:kept])
    assert len(go(out, items=ITEMS[:1])) == 1


@pytest.mark.parametrize("method", ["left-only", "left-only-greedy"])
def test_the_lm_alone_runs_the_same_way(tmp_path, method):
    records = go(tmp_path / "run.jsonl", method)
    assert {len(record.line["samples"]) for record in records} == {2 if method == "left-only" else 1}
    assert all(record.line["text"] and record.line["trace"] == {} for record in records)


RUNNER = """
import sys; sys.path[:0] = ["tests"]
from pathlib import Path
from cold.tasks import many
many.MOST_ON_CPU = 2  # one example a batch, so that there is a time between two
from evaluation.test_runs import go
go(Path(sys.argv[1]))
"""


def test_killed_at_any_moment_it_ends_in_the_same_file(tmp_path):
    kills = int(os.environ.get("COLD_KILLS", "2"))
    out, unbroken, draw = tmp_path / "run.jsonl", tmp_path / "unbroken.jsonl", random.Random(0)
    command = [sys.executable, "-c", RUNNER, str(out)]
    subprocess.run([*command[:-1], str(unbroken)], cwd=ROOT, check=True)
    for _ in range(kills):
        child = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
        size = out.stat().st_size if out.exists() else 0
        until = time.monotonic() + 60
        while child.poll() is None and time.monotonic() < until and (out.stat().st_size if out.exists() else 0) == size:
            time.sleep(0.001)  # until it has written something new; then soon after
        time.sleep(draw.random() * 0.1)
        child.send_signal(signal.SIGKILL)
        child.wait()
    subprocess.run(command, cwd=ROOT, check=True)
    assert without_times(out) == without_times(unbroken)
