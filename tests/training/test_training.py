"""How the bundled models were made: each step on a few kilobytes, and the facts that a long run relies on."""

import json
import math
import os
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from cold.baselines.proposals import Gap, load_masked
from cold.errors import ColdError
from cold.lm import Context, load
from cold.lm.pack import expand, expand_table, squeeze, squeeze_table
from tiny import SENTENCES, tiny_lm
from training import network, prepare
from training.blend import blend
from training.head import Head, chunk_loss
from training.recipe import read_recipe
from training.sample import Generate, Prompts, Writer
from training.train import Stream, hide, mask_token, read_data

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]

QUICK = " --steps 2 --samples 1 --length 4"

RECIPE = """
[model]
layers = 2
ffn = 48
window = 24
frequent = 128
code = 4
[training]
rows = 8
steps = 60
warmup = 5
step_size = 1e-2
table_step = 0.1
weight_decay = 0.0
clip = 1.0
masked = 0.15
seed = 0
[sampling]
groups = 2
rows = 3
shots = { stories = 1, sentences = 2 }
least = { stories = 10, sentences = 0 }
new = 70
temperature = 0.8
"""


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partner's folder, a recipe and a text."""
    room = tmp_path_factory.mktemp("training")
    lm = tiny_lm()
    lm.model.save_pretrained(room / "partner")
    lm.tokenizer.save_pretrained(room / "partner")
    (room / "recipe.toml").write_text(RECIPE)
    (room / "text.txt").write_text(
        "\n".join([*SENTENCES, SENTENCES[0], "# a heading that is long enough", "No."]) + "\n"
    )
    return room


def run(room: Path, module: str, *arguments: str) -> str:
    command = [sys.executable, "-m", f"training.{module}", *arguments]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def data(room: Path) -> Path:
    run(room, "prepare", "--model", str(room / "partner"), "--out", str(room / "data"), str(room / "text.txt"))
    return room / "data"


# -- sampling ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
def test_two_part_attention_writes_what_the_library_writes(device: str) -> None:
    lm = tiny_lm()
    model = lm.model.to(device)
    try:
        moved = type(lm)(model, lm.tokenizer, "moved")
        prompts = [moved.encode("The dog ran. A cat sat on the mat."), moved.encode("She went home.")]
        openings = [moved.encode(text) for text in ("A", "The man", "He was late", "It", "My friend has", "They")]
        written = Writer(moved, 2, 3, 70, 1e-6)(prompts, openings, [0, 0])
        again = Writer(moved, 2, 3, 70, 1e-6)(prompts, openings, [0, 0])
        assert written.equal(again)
        for row, opening in enumerate(openings):
            prompt = prompts[row // 3]
            ids = torch.tensor([prompt + opening], device=device)
            wanted = model.generate(ids, do_sample=False, max_new_tokens=70 - len(opening), eos_token_id=None)
            assert written[row].tolist() == wanted[0, len(prompt) :].tolist()
    finally:
        lm.model.to("cpu")


@pytest.mark.parametrize("arch", ["llama", "gpt2"])
def test_samples_begin_with_their_openings(arch: str) -> None:
    lm = tiny_lm(arch=arch)
    prompts = Prompts(lm, {"stories": 1, "sentences": 2}, None, seed=0)
    (first, left), (second, right) = prompts.draw("stories", 2), prompts.draw("sentences", 2)
    kind = Writer if arch == "llama" else Generate
    ids = kind(lm, 2, 2, 20, 0.8)([first[:200], second[:200]], left + right, [0, 0])
    for row, opening in zip(ids.tolist(), left + right, strict=True):
        assert row[: len(opening)] == opening


def test_a_line_does_not_end_before_its_time() -> None:
    lm, prompt = tiny_lm(), [0, *tiny_lm().encode("The dog ran.\n")]
    torch.manual_seed(0)
    writer = Writer(lm, 2, 64, 60, 1e6)  # so hot that every token is as likely as any other
    rows = writer([prompt, prompt], [lm.encode("A")] * 128, [0, 25]).tolist()
    ends = [[0] + [i for i, token in enumerate(row) if token == 0 or "\n" in lm.decode([token])] for row in rows]
    gaps = [[later - earlier for earlier, later in pairwise(row)] for row in ends]
    assert min(gap for row in gaps[:64] for gap in row) < 25
    assert min(gap for row in gaps[64:] for gap in row) >= 25


# -- preparing -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Tom went to the store to buy milk.", ""),
        ("Tom went.", "too short or too long"),
        ("# Tom went to the store to buy milk.", "markup"),
        ("Tom went to the store and " * 9 + "fell.", "loop"),
        ("Tom went to the store to buy some milk and then he went back to his house and then to the", "unfinished"),
        ("Том пошёл в магазин купить молока.", ""),
        ("Tom went to the store to buy milk 牛奶.", "other script"),
    ],
)
def test_what_is_not_learned(text: str, reason: str) -> None:
    assert prepare.refuse(text) == reason


def test_the_stream_has_every_document_once_between_separators(data: Path) -> None:
    ids, lm = np.load(data / "ids.npy"), tiny_lm()
    assert ids[0] == ids[-1] == lm.separator
    documents = np.split(ids, np.flatnonzero(ids == lm.separator)[1:])[:-1]
    assert sorted(lm.decode(d[1:].tolist()) for d in documents) == sorted(SENTENCES)
    counts = json.loads((data / "counts.json").read_text())
    assert counts["text.txt"]["duplicate"] == 1
    assert counts["text.txt"]["markup"] == 1
    assert counts["all"]["documents"] == len(SENTENCES)


def test_samples_are_cut_at_the_separator_and_at_the_last_whole_line(room: Path) -> None:
    prepare.start_worker(str(room / "partner"))
    lm = tiny_lm()
    whole = [*lm.encode("The dog ran.\nA cat sat"), lm.separator, *lm.encode("Never")]
    cut = lm.encode("The dog ran.\nA cat sa")
    assert list(prepare.split_samples([np.array(whole), np.array(cut)], lm.separator)) == [
        "The dog ran.", "A cat sat", "The dog ran.",
    ]  # fmt: skip


# -- the network ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("taught", [None, torch.tensor([2, 3, 7, 29])])
def test_the_head_without_a_graph_has_the_gradients_of_cross_entropy(taught: torch.Tensor | None) -> None:
    torch.manual_seed(0)
    hidden, table = torch.randn(50, 8, requires_grad=True), torch.randn(30, 8)
    targets = torch.randint(30, (50,))
    rows = None if taught is None else table[taught].requires_grad_()
    whole = table if rows is None else table.index_copy(0, taught, rows)
    wanted = F.cross_entropy(hidden @ whole.T, targets)
    learned = [hidden] if rows is None else [hidden, rows]
    slopes = torch.autograd.grad(wanted, learned)
    found = Head.apply(hidden, rows, table, taught, targets, chunk_loss)
    torch.testing.assert_close(found, wanted)
    for slope, value in zip(torch.autograd.grad(found, learned), slopes, strict=True):
        torch.testing.assert_close(slope, value)


@pytest.mark.parametrize("way", [1, -1])
def test_a_document_keeps_its_temperature_and_sees_itself_alone(way: int) -> None:
    ids = np.array([0, 5, 5, 0, 6, 0, 7, 7, 7, 0, 8, 8, 0])
    heats = np.array([0.5, 0.6, 0.7, 0.8], dtype=np.float32)
    of_token = {5: 0.5, 6: 0.6, 7: 0.7, 8: 0.8}
    stream = Stream(ids[::way], heats[::way], 0, 5, torch.device("cpu"))
    windows, found = stream.draw(40, torch.Generator().manual_seed(0))
    assert (windows[:, 0] == 0).all()
    for window, heat in zip(windows.tolist(), found.tolist(), strict=True):
        for at, token in enumerate(window):
            following = next((t for t in window[at:] if t), None) if token == 0 else token
            if following:
                assert heat[at] == pytest.approx(of_token[following])
    sees = stream.sees(torch.tensor([[0, 5, 5, 0, 6]]), causal=True)[0, 0].int().tolist()
    assert sees == [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 1, 1]]
    assert stream.sees(torch.tensor([[0, 5, 5, 0, 6]]), causal=False)[0, 0, 1].int().tolist() == [1, 1, 1, 0, 0]


def test_hidden_tokens_are_never_separators() -> None:
    windows = torch.tensor([[0, 5, 6, 0, 7] * 40, [0, 5, 6, 8, 7] * 40])
    found, at = hide(windows, 0.3, 9, 0, torch.Generator().manual_seed(0))
    where = torch.zeros(windows.numel(), dtype=torch.bool).index_fill(0, at, True).view_as(windows)
    assert len(at) == len(set(at.tolist())) == 120  # always so many, for one shape of the loss
    assert (found[where] == 9).all()
    assert found[~where].equal(windows[~where])
    assert not where[windows == 0].any()
    assert where[0].any()
    assert where[1].any()


def test_the_mask_is_a_special_token_that_no_text_contains() -> None:
    lm = load("mini", device="cpu")
    mask = mask_token(lm)
    assert lm.banned[mask]
    assert mask != lm.separator
    assert mask not in lm.encode("<empty_output> in a text")[1:]


def test_data_of_several_folders_is_one_stream(data: Path) -> None:
    ids, heats = read_data([data])
    twice, both = read_data([data, data])
    assert (twice == np.concatenate([ids, ids[1:]])).all()
    assert len(both) == 2 * len(heats) == (twice == 0).sum() - 1


def test_borrowed_layers_are_the_partners() -> None:
    recipe = read_recipe().model
    recipe.layers, recipe.ffn = 3, 40
    partner = network.build(torch.randn(50, 64), recipe, 0, "forward")
    recipe.layers, recipe.ffn = 2, 30
    network.borrow(ours := network.build(torch.randn(50, 64), recipe, 0, "reverse"), partner)
    for mine, theirs in ((0, 0), (1, 2)):  # evenly spaced
        mine, theirs = ours.model.layers[mine], partner.model.layers[theirs]
        assert mine.self_attn.q_proj.weight.equal(theirs.self_attn.q_proj.weight)
        kept = {tuple(row.tolist()) for row in mine.mlp.up_proj.weight}
        assert kept < {tuple(row.tolist()) for row in theirs.mlp.up_proj.weight}
        assert mine.mlp.down_proj.weight.shape == (64, 30)


# -- few bytes -----------------------------------------------------------------------------------------------


def test_a_matrix_comes_back_within_half_a_step_of_its_row() -> None:
    matrix = torch.randn(40, 30, generator=torch.Generator().manual_seed(0)) * torch.logspace(-3, 3, 40)[:, None]
    packed = squeeze(matrix)
    assert packed["q"].dtype == torch.int8
    step = matrix.abs().amax(1, keepdim=True) / 127
    assert ((expand(packed) - matrix).abs() <= 0.55 * step).all()


def test_a_table_keeps_frequent_words_and_its_order() -> None:
    table = torch.randn(600, 8, generator=torch.Generator().manual_seed(0))
    frequent = torch.tensor([3, 500, 7])
    found = expand_table(squeeze_table(table, frequent, 2))
    assert (found[frequent] - table[frequent]).abs().max() < 0.02
    assert (found - table).norm() / table.norm() < 0.25


# -- training ------------------------------------------------------------------------------------------------


def leg(room: Path, data: Path, direction: str, out: Path, *more: str) -> list[dict[str, float]]:
    given = ["--partner", str(room / "partner"), "--data", str(data), "--out", str(out), "--direction", direction]
    run(room, "train", *given, "--recipe", str(room / "recipe.toml"), "--validate", str(room / "text.txt"), *more)
    return [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


def plain_leg(room: Path, data: Path, direction: str) -> list[dict]:
    """The leg without any option, which several tests look at: made by the first that asks."""
    log = room / direction / "log.jsonl"
    if not log.exists():
        leg(room, data, direction, room / direction)
    return [json.loads(line) for line in log.read_text().splitlines()]


@pytest.mark.parametrize("direction", ["forward", "reverse", "masked"])
def test_a_few_kilobytes_are_learned(direction: str, room: Path, data: Path) -> None:
    log = plain_leg(room, data, direction)
    assert log[-1]["step"] == 60
    assert log[-1]["loss"] < math.log(512)
    if direction != "masked":
        assert log[-1]["bits_per_character"] < 3.5
    config = json.loads((room / direction / "config.json").read_text())
    assert config["reads"] == network.READS[direction]


def test_a_masked_model_is_exported_measured_and_fills_gaps(room: Path, data: Path) -> None:
    log = leg(room, data, "masked", room / "fills", "--seconds", "6")
    assert 0 < log[-1]["step"] <= 60
    assert log[-1]["seconds"] < 60  # ended by the clock, or by the steps where the machine is quick
    run(room, "export", "--partner", str(room / "partner"), "--layers", str(room / "fills"), "--to", str(room / "hf"))
    told = ["--masked", str(room / "hf"), "--product", str(room / "partner"), "--partner", str(room / "partner")]
    table = run(room, "fill", str(room / "text.txt"), *told, "--most", "4", "--every", "3")
    assert [line.split()[0] for line in table.splitlines()[2:]] == [str(room / "hf"), str(room / "partner")]
    filler = load_masked(str(room / "hf"), "cpu")
    said = filler.place(Context(tiny_lm(), left="The dog")).logits([Gap(0, [], tiny_lm().encode(" to the river."))])
    assert said.shape == (1, tiny_lm().vocab)
    with pytest.raises(ColdError, match="cannot write"):
        load(str(room / "hf"))


def test_one_direction_teaches_the_table_and_the_other_takes_it_over(room: Path, data: Path) -> None:
    frozen, taught, taken = (room / name / "table.safetensors" for name in ("forward", "teaches", "takes"))
    leg(room, data, "reverse", taught.parent, "--teach-table")
    leg(room, data, "forward", taken.parent, "--table", str(taught))
    plain_leg(room, data, "forward")
    assert taken.read_bytes() == taught.read_bytes()
    start, end = network.read_table(frozen), network.read_table(taught)
    words = network.taught_words(taught)
    rest = torch.ones(len(start), dtype=torch.bool).index_fill(0, words, False)
    assert (end[words] - start[words]).abs().max() > 1e-3
    assert torch.equal(end[rest], start[rest])


def test_a_model_grows_from_a_smaller_one_without_a_step_back(room: Path, data: Path) -> None:
    small = plain_leg(room, data, "reverse")[-1]["bits_per_character"]
    still = room / "still.toml"
    still.write_text(RECIPE.replace("step_size = 1e-2", "step_size = 0.0").replace("steps = 60", "steps = 50"))
    given = ["--table", str(room / "reverse" / "table.safetensors"), "--layers", "3", "--recipe", str(still)]
    grown = leg(room, data, "reverse", room / "grown", "--start", str(room / "reverse"), *given)[-1][
        "bits_per_character"
    ]
    assert grown == pytest.approx(small, rel=1e-4)


def test_a_blend_lies_between_two_trainings_and_shrinks_what_a_grown_layer_adds() -> None:
    adds = "layers.1.mlp.down_proj.weight"
    first = {"layers.0.mlp.down_proj.weight": torch.tensor([1.0, 2.0])}
    second = {"layers.0.mlp.down_proj.weight": torch.tensor([3.0, 6.0]), adds: torch.tensor([4.0])}
    second["layers.1.mlp.up_proj.weight"] = torch.tensor([5.0])
    mixed = blend(first, second, share=0.25, grown=0.5)
    assert mixed["layers.0.mlp.down_proj.weight"].tolist() == [1.5, 3.0]
    assert mixed[adds].tolist() == [2.0]
    assert mixed["layers.1.mlp.up_proj.weight"].tolist() == [5.0]


def test_a_leg_goes_on_from_disk_and_warms_up_again_where_the_optimizer_is_missing(room: Path, data: Path) -> None:
    out = room / "legs"
    short = room / "short.toml"
    short.write_text(RECIPE.replace("steps = 60", "steps = 55"))
    given = ["--partner", str(room / "partner"), "--data", str(data), "--out", str(out), "--direction", "reverse"]
    given += ["--recipe", str(short)]
    run(room, "train", *given, "--minutes", "0")  # ends at the first look at the clock
    first = json.loads((out / "state.json").read_text())
    assert first["step"] == 50
    assert first["tokens"] == 50 * 8 * 24
    (out / "optimizer.pt").unlink()  # another machine: only the weights travelled
    run(room, "train", *given)
    log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert [entry["step"] for entry in log] == [50, 50, 55]
    assert log[-1]["loss"] < log[0]["loss"]


def test_the_commands_of_the_guide_run(room: Path) -> None:
    """docs/train-a-reverse-model.md, on a few kilobytes and with a recipe that fits them."""
    root = Path(__file__).parents[2]
    guide = (root / "docs" / "train-a-reverse-model.md").read_text()
    lines = guide.split("```")[1].strip().splitlines()
    assert len(lines) == 6
    place = room / "guide"
    shutil.copytree(room / "partner", place / "my-model")
    (place / "text.txt").write_text("\n".join(SENTENCES[:-10]) + "\n")
    (place / "held-out.txt").write_text("\n".join(SENTENCES[-10:]) + "\n")
    (place / "recipe.toml").write_text(RECIPE)
    scripts = Path(sys.executable).parent
    extra = {
        "training.sample": " --recipe recipe.toml --rounds 1",
        "training.train": " --recipe recipe.toml",
        "cold ": QUICK,
    }
    printed = []
    for line in lines:
        line += next((more for part, more in extra.items() if part in line), "")
        line = line.replace("python -m", f"{sys.executable} -m").replace("cold abductive", f"{scripts}/cold abductive")
        environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "2"}
        done = subprocess.run(line, shell=True, cwd=place, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, (line, done.stderr)
        printed.append(done.stdout + done.stderr)
    assert "my-reverse" in printed[4]
    assert "right-to-left" in printed[4]
    assert "fluency_reverse" in printed[5]
