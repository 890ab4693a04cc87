"""The command line: help that is quick, one clear line for bad input, JSON that programs can read."""

import json
import signal
import subprocess
import sys
import time

import pytest

from cold import cli
from cold.evaluation import plan
from cold.recipes import presets
from tiny import tiny_lm

FOLDER: dict[str, str] = {}


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A tiny random LM in a folder, as a user would name it."""
    folder = tmp_path_factory.mktemp("tiny")
    lm = tiny_lm()
    lm.model.save_pretrained(folder)
    lm.tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def cold(capsys):
    def call(*arguments):
        code = cli.run(list(arguments))
        out, err = capsys.readouterr()
        return code, out, err

    return call


QUICK = ("--steps", "3", "--samples", "2")


def test_help_answers_in_under_half_a_second_and_names_every_command():
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "cold", "--help"], capture_output=True, text=True, check=True)
    elapsed = time.monotonic() - start
    for name in ("lexical", "abductive", "counterfactual", "sample", "run", "eval", "report", "models", "presets"):
        assert name in done.stdout
    assert "torch" not in sys.modules or elapsed < 5  # the bound below is what a user feels; a busy machine may lag
    probe = "import sys, cold.cli.app; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", probe], check=False).returncode == 0


def test_a_task_prints_the_best_text_first(cold, model):
    code, out, _ = cold("lexical", "dog", "park", "--model", model, *QUICK)
    assert code == 0
    lines = out.splitlines()
    assert lines[0]
    assert f"1. {lines[0]}" in out
    assert "energy" in out


def test_quiet_prints_the_text_alone(cold, model):
    code, out, err = cold("lexical", "dog", "--model", model, *QUICK, "--quiet")
    assert (code, len(out.splitlines()), err) == (0, 1, "")


@pytest.mark.parametrize(
    "command",
    [
        ("lexical", "dog", "park"),
        ("abductive", "--left", "The dog ran.", "--right", "The man sat in the park."),
        ("counterfactual", "--context", "The dog ran.", "--ending", "The man sat in the park."),
    ],
)
@pytest.mark.parametrize("preset", ["fast", "released", "paper"])
def test_json_is_one_object_with_everything_needed_to_run_again(cold, model, command, preset):
    code, out, _ = cold(*command, "--preset", preset, "--model", model, *QUICK, "--json", "--seed", "7")
    assert code == 0
    report = json.loads(out)
    assert report["schema_version"] == 1
    assert report["task"] == command[0]
    assert report["seed"] == 7
    assert report["configuration"]["steps"] == 3
    assert report["model"]["hash"]
    assert report["dtype"] == "float32"
    assert set(report["versions"]) >= {"cold", "torch", "transformers"}
    assert set(report["timings"]) == {"load_s", "sample_s", "finish_s"}
    assert len(report["samples"]) == 2
    assert report["best"]["text"] == report["samples"][report["best"]["sample"]]["text"]
    sample = report["samples"][0]
    assert all(set(term) == {"weight", "soft", "text"} for term in sample["terms"].values())
    total = -sum(term["weight"] * term["soft"] for term in sample["terms"].values())
    assert sample["soft_energy"] == pytest.approx(total, rel=1e-5)
    if preset != "fast":
        assert "docs/train-a-reverse-model.md" in report["notes"][0]
        assert "left out" in report["notes"][1]
        assert report["reverse"] is None
        assert "fluency_reverse" not in sample["terms"]


@pytest.mark.parametrize("preset", ["fast", "released", "paper"])
def test_a_right_text_of_function_words_alone_leaves_the_keywords_out(cold, model, preset):
    run = ("abductive", "--left", "The dog ran.", "--right", "It was there.", "--model", model, *QUICK, "--json")
    code, out, err = cold(*run, "--preset", preset)
    assert code == 0, err
    assert json.loads(out)["configuration"]["texts"]["keywords"] == []


def test_a_style_of_ones_own_replaces_the_examples(cold, model):
    run = ("lexical", "dog", "--model", model, *QUICK, "--json")
    mine = json.loads(cold(*run, "--style", "A cat sat.", "--style", "It ran.")[1])
    assert mine["configuration"]["style"] == ["A cat sat.", "It ran."]
    assert mine["samples"] != json.loads(cold(*run)[1])["samples"]


def test_the_same_seed_gives_the_same_texts_and_another_seed_others(cold, model):
    run = ("lexical", "dog", "--model", model, *QUICK, "--json")
    first, again, other = (json.loads(cold(*run, "--seed", seed)[1])["samples"] for seed in ("1", "1", "2"))
    assert first == again
    assert first != other


@pytest.mark.parametrize("name", presets())
def test_what_presets_show_prints_runs_under_sample(cold, model, tmp_path, name):
    code, out, _ = cold("presets", "show", name)
    assert code == 0
    file = tmp_path / "energy.toml"
    file.write_text(out)
    code, out, err = cold("sample", str(file), "--model", model, "--steps", "2", "--samples", "1", "--json")
    assert code == 0, err
    assert json.loads(out)["samples"][0]["text"] is not None


def test_traces_are_written_as_numbers_and_as_a_picture(cold, model, tmp_path):
    for name in ("x.json", "x.png"):
        assert cold("lexical", "dog", "--model", model, *QUICK, "--trace", str(tmp_path / name))[0] == 0
    steps = json.loads((tmp_path / "x.json").read_text())["steps"]
    assert [s["step"] for s in steps] == [0, 1, 2]
    assert set(steps[0]["scores"]) == {"fluency", "keywords"}
    assert steps[0]["term_gradients"] is not None
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


ENERGY = """
length = 4
[contexts.story]
left = "The dog"
[[terms]]
kind = "fluency"
context = "story"
weight = 1.0
"""


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (('kind = "fluency"', 'kind = "flow"'), "terms[0]: there is no term 'flow'"),
        (("weight = 1.0", ""), "terms[0]: key 'weight' is missing"),
        (("weight = 1.0", "weight = -1.0"), "weight of 'fluency' is -1.0"),
        (('context = "story"', 'context = "stori"'), "terms[0]: there is no context 'stori'"),
        (('context = "story"', ""), "terms[0]: key 'context' is missing"),
        (("length = 4", "lenght = 4"), "there is no key 'lenght'"),
        (("length = 4", 'length = "4"'), "length is '4'"),
        (("length = 4", "length = 0"), "the length is 0"),
        (('left = "The dog"', 'left = "{who}"'), "has an unknown field"),
        (("[contexts.story]", "[contexts.story"), "is not valid TOML"),
        (('kind = "fluency"', 'kind = "nowhere:f"'), "cannot be imported"),
    ],
)
def test_a_mistake_in_an_energy_file_is_named_with_its_place(cold, model, tmp_path, change, expected):
    file = tmp_path / "energy.toml"
    file.write_text(ENERGY.replace(*change))
    code, out, err = cold("sample", str(file), "--model", model, *QUICK)
    assert (code, out) == (2, "")
    assert expected in err
    assert err.startswith("cold: ")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return y.logits.sum()", "constraint 'mine' returned [] for 2 rows"),
        ("return y.logits.mean((1, 2)) * float('nan')", "term 'mine' is nan in row 0 at step 0"),
        ("return 3", "constraint 'mine' returned int"),
    ],
)
def test_a_constraint_that_misbehaves_is_named(cold, model, tmp_path, body, expected):
    module = f"bad_{abs(hash(body))}"
    (tmp_path / f"{module}.py").write_text(f"def mine(y):\n    {body}\n")
    file = tmp_path / "energy.toml"
    file.write_text(ENERGY + f'[[terms]]\nkind = "{module}:mine"\nname = "mine"\nweight = 1.0\n')
    code, _, err = cold("sample", str(file), "--model", model, *QUICK)
    assert code == 2
    assert expected in err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("lexical",), "no words were given"),
        (("lexical", "..."), "is not a word"),
        (("lexical", "dog", "--avoid", "Dog"), "'dog' must come and must not come"),
        (("abductive", "--left", " ", "--right", "x y."), "the left text is empty"),
        (("counterfactual", "--context", "a b.", "--ending", ""), "the ending text is empty"),
        (("lexical", "dog", "--model", "no-such-model"), "there is no model 'no-such-model'"),
        (("lexical", "dog", "--model", "missing.gguf"), "there is no file missing.gguf"),
        (("lexical", "dog", "--preset", "quick"), "there is no preset 'quick'"),
        (("lexical", "dog", "--no-such-option"), "No such option"),
        (("no-such-command",), "No such command"),
        (("lexical", "dog", "--steps", "many"), "--steps"),
        (("lexical", "dog", "--trace", "x.txt"), "must end in .json or .png"),
        (("lexical", "dog", "--trace", "no/such/x.png"), "there is no folder"),
        (("sample", "missing.toml"), "cannot be read"),
        (("presets", "show", "nothing"), "there is no preset 'nothing'"),
        (("models", "get", "nothing"), "no model is known as 'nothing'"),
        (("lexical", "dog", "--device", "abacus"), "there is no device 'abacus'"),
    ],
)
def test_bad_input_is_one_line_and_exit_status_2(cold, arguments, expected):
    code, out, err = cold(*arguments)
    assert (code, out) == (2, "")
    assert expected in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("lexical", "dog", "--steps", "0"), "0 steps were asked for"),
        (("lexical", "dog", "--samples", "0"), "0 samples were asked for"),
        (("lexical", "dog", "--top-k", "0"), "top-k is 0"),
        (("lexical", "dog", "--length", "0"), "length"),
        (("lexical", "dog", "--preset", "paper", "--style", "A cat sat."), "has no place for a style"),
        (("lexical", "chrysanthemum", "--length", "2"), "keyword 'chrysanthemum' becomes"),
        (("abductive", "--left", "dog " * 5000, "--right", "x y."), "does not fit into the window"),
    ],
)
def test_bad_numbers_and_texts_are_one_line_and_exit_status_2(cold, model, arguments, expected):
    code, out, err = cold(*arguments, "--model", model)
    assert (code, out) == (2, "")
    assert expected in err
    assert len(err.splitlines()) == 1


def test_a_reverse_model_with_another_vocabulary_is_refused(cold, model, tmp_path):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=77, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2
    )
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    tiny_lm().tokenizer.save_pretrained(tmp_path)
    run = ("lexical", "dog", "--preset", "paper", "--model", model)
    code, _, err = cold(*run, "--reverse", str(tmp_path), *QUICK)
    assert code == 2
    assert "must share one vocabulary" in err


def test_the_bundled_pair_needs_no_download_and_no_option(cold):
    run = ("abductive", "--left", "The dog ran.", "--right", "The man sat in the park.", "--preset", "paper")
    code, out, err = cold(*run, "--model", "mini", *QUICK, "--json")
    assert code == 0
    report = json.loads(out)
    assert report["notes"] == ["mini-reverse reads right to left for 'mini': they share a vocabulary"]
    assert "they share a vocabulary" in err
    assert report["reverse"]["name"] == "mini-reverse"
    assert report["model"]["hash"] != report["reverse"]["hash"]
    terms = report["samples"][0]["terms"]
    assert {name: term["weight"] for name, term in terms.items()} == {
        "fluency": 0.3, "fluency_reverse": 0.2, "future": 0.48, "similarity": 0.02,
    }  # fmt: skip


def test_a_reverse_model_that_no_term_reads_is_not_loaded_but_said(cold, model):
    code, out, _ = cold("lexical", "dog", "--model", model, "--reverse", "nowhere", *QUICK, "--json")
    assert code == 0
    assert json.loads(out)["notes"] == ["--reverse nowhere changes nothing: this energy has no right-to-left term"]


def test_models_are_listed_fetched_and_exported(cold, tmp_path):
    assert "it comes with the package" in cold("models")[1]
    assert "nothing to fetch" in cold("models", "get", "mini")[1]
    code, _, err = cold("models", "export", "mini", str(tmp_path / "mini"))
    assert code == 0, err
    assert json.loads((tmp_path / "mini" / "config.json").read_text())["reads"] == "left-to-right"
    assert cold("models", "export", "mini", str(tmp_path / "mini"))[0] == 2


def test_a_reverse_model_joins_the_energy(cold, model):
    run = ("lexical", "dog", "--preset", "paper", "--model", model, "--reverse", model, *QUICK, "--json")
    report = json.loads(cold(*run)[1])
    assert report["notes"] == []
    assert report["samples"][0]["terms"]["fluency_reverse"]["weight"] == 0.2


def test_interrupting_prints_the_best_so_far_and_exits_with_130(model):
    run = [sys.executable, "-m", "cold", "lexical", "dog", "--model", model, "--steps", "100000", "--samples", "2"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # A test run in the background ignores Ctrl-C, and its children inherit that.
    with subprocess.Popen(run, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **pipes) as process:
        assert process.stderr is not None
        for line in process.stderr:  # the first words say that the chain is running
            if line.startswith("step"):
                break
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted after" in err
    assert out.splitlines()[0]


# -- whole files -------------------------------------------------------------------------------------------


def test_a_file_is_run_scored_and_made_a_page(cold, model, tmp_path):
    data, out = tmp_path / "words.txt", tmp_path / "run.jsonl"
    data.write_text("dog park\ncat\n{broken\n")
    given = ("lexical", "--data", str(data), "--model", model, "--out", str(out), *QUICK)
    code, printed, err = cold("run", *given)
    assert (code, printed) == (0, "")
    assert "words.txt, line 3: not valid JSON" in err
    assert f"2 examples in {out}" in err
    before = out.read_bytes()
    assert cold("run", *given)[0] == 0  # nothing is missing
    assert out.read_bytes() == before
    code, _, err = cold("run", *given[:-1], "3")  # another number of samples
    assert code == 2
    assert "configuration.samples: 2 then, 3 now" in err
    data.write_text("dog park\nbird\n{broken\n")  # other data of the same name
    code, _, err = cold("run", *given)
    assert code == 2
    assert "data.sha256" in err
    code, table, _ = cold("eval", str(out), "--judge", "none", "--encoder", "none", "--json", str(tmp_path / "n.json"))
    assert code == 0
    assert "coverage %" in table
    (numbers,) = json.loads((tmp_path / "n.json").read_text())
    assert numbers["examples"] == 2
    assert cold("report", str(out), "--judge", "none", "--encoder", "none")[0] == 0
    assert '"park"' in (tmp_path / "run.html").read_text()


def test_what_a_run_leaves_out_is_a_note_said_once(cold, model, tmp_path):
    out = str(tmp_path / "run.jsonl")
    code, _, err = cold(
        "run", "abductive", "--preset", "released", "--model", model, "--limit", "2", "--out", out, *QUICK
    )
    assert code == 0
    assert err.count("note: term 'fluency_reverse' (weight 0.2) is left out") == 1
    assert "Warning" not in err


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (("--method", "magic"), "there is no method 'magic'"),
        (("--split", "test"), "there is no split 'test'"),
        (("--data", "nowhere.jsonl"), "cannot be read"),
        (("--out", "no/such/folder/run.jsonl"), "there is no folder"),
    ],
)
def test_a_run_that_cannot_start_says_why(cold, model, tmp_path, wrong, told):
    given = {"--out": str(tmp_path / "run.jsonl"), **dict([wrong])}
    options = [word for pair in given.items() for word in pair]
    code, _, err = cold("run", "lexical", "--model", model, *QUICK, *options)
    assert code == 2
    assert told in err
    assert len(err.strip().splitlines()) == 1


def test_tables_make_the_runs_they_need_and_go_on_with_them(cold, model, tmp_path, monkeypatch):
    """Left-only, every preset and both ablations in one command; the other decoders have tests of their own."""
    monkeypatch.setattr(plan, "QUICK", dict.fromkeys(plan.TASKS, ()))
    monkeypatch.setattr(plan, "CHAINS", dict.fromkeys(plan.TASKS, ()))
    given = ("tables", "--run", str(tmp_path / "runs"), "--out", str(tmp_path / "t"), "--limit", "2", "--few", "1")
    given += ("--samples", "1", "--steps", "1", "--model", model, "--judge", "none", "--encoder", "none")
    code, out, err = cold(*given)
    assert code == 0
    assert "run 23 of 23: lexical-paper" in err
    for row in ("COLD fast 1 steps", "COLD paper 1 steps", "left-only-greedy", "without future", "top-k 100"):
        assert row in out
    before = {path.name: path.read_bytes() for path in (tmp_path / "runs").iterdir()}
    assert cold(*given)[0] == 0  # nothing is missing
    assert {path.name: path.read_bytes() for path in (tmp_path / "runs").iterdir()} == before
    code, _, err = cold("tables")
    assert (code, err.count("\n")) == (2, 1)
    assert "give run files, or --run FOLDER" in err
