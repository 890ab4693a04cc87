"""A masked LM fills a gap: padding and company change nothing, one state a row is read out, bad names are told."""

import hashlib
import json
import shutil
from importlib import resources
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertForMaskedLM, LlamaConfig, LlamaForCausalLM

from cold.baselines import BASELINES
from cold.baselines.proposals import Gap, Masked, around, load_masked
from cold.cli import run
from cold.errors import ColdError
from cold.lm import Context, bundled
from cold.lm.masked import MaskedLlama, logits_at
from small import LEFTS, RIGHTS
from tiny import VOCAB, tiny_lm, tiny_tokenizer
from training.bundle import KEPT, pack_layers

PLACE = Path(str(resources.files("cold"))) / "bundled"


def both_ways() -> MaskedLlama:
    """The tiny Llama with weights so wide that every token counts, read both ways."""
    return MaskedLlama(tiny_lm().model)


def bert(folder: Path) -> Path:
    """A random BERT over the tiny vocabulary and a mask of its own, as a user would name it."""
    torch.manual_seed(0)
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    config = BertConfig(
        vocab_size=VOCAB + 1, **size, max_position_embeddings=48, initializer_range=0.5, pad_token_id=None
    )
    BertForMaskedLM(config).save_pretrained(folder)
    tokenizer = type(tiny_tokenizer())(
        tokenizer_object=tiny_tokenizer().backend_tokenizer, bos_token="<|endoftext|>", mask_token="[MASK]"
    )
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module", params=["bert", "llama"])
def filler(request, folder):
    story = Context(tiny_lm(), left=LEFTS, right=RIGHTS)
    if request.param == "bert":
        return load_masked(str(folder), "cpu").place(story)
    return Masked(both_ways().eval(), 7, story)


GAPS = [Gap(0, [40], [50, 51]), Gap(1, [], [60]), Gap(0, [41, 42, 43, 44], []), Gap(1, [61], [62])]


def test_padding_and_company_change_nothing(filler) -> None:
    together = filler.logits(GAPS)
    assert together.shape == (4, VOCAB)
    for gap, said in zip(GAPS, together, strict=True):
        torch.testing.assert_close(filler.logits([gap])[0], said, rtol=1e-4, atol=1e-4)


def test_both_sides_count_and_what_is_hidden_does_not(filler) -> None:
    said = filler.logits([GAPS[0], Gap(0, [45], [50, 51]), Gap(0, [40], [50, 52])])
    assert (said[0] - said[1]).abs().max() > 0.01
    assert (said[0] - said[2]).abs().max() > 0.01


def test_the_output_layer_sees_one_state_a_row_and_says_what_it_says_of_all(filler) -> None:
    ids = torch.randint(1, VOCAB, (3, 9), generator=torch.Generator().manual_seed(0))
    there, at = torch.ones_like(ids), torch.tensor([8, 0, 4])
    seen = []
    head = filler.model.get_output_embeddings()
    hook = head.register_forward_hook(lambda _, given, out: seen.append(tuple(given[0].shape[:2])))
    found = logits_at(filler.model, ids, there, at)
    whole = filler.model(input_ids=ids, attention_mask=there).logits
    hook.remove()
    assert seen == [(3, 1), (3, 9)]
    torch.testing.assert_close(found, whole[torch.arange(3), at], rtol=1e-4, atol=1e-4)


def test_total_sums_the_logits_of_the_texts_own_tokens(filler) -> None:
    text = [40, 41, 42]
    gaps = [Gap(1, text[:i], text[i + 1 :]) for i in range(3)]
    wanted = sum(float(filler.logits([gap])[0, text[i]]) for i, gap in enumerate(gaps))
    assert float(filler.total([0, 1], [[9], text])[1]) == pytest.approx(wanted, rel=1e-4)


def test_a_small_window_keeps_what_is_nearest_to_the_gap() -> None:
    assert around([1, 2, 3], [4, 5], 6) == ([1, 2, 3], [4, 5])
    assert around([1, 2, 3], [4, 5, 6], 5) == ([2, 3], [4, 5])
    assert around([1, 2, 3, 4, 5], [6], 5) == ([3, 4, 5], [6])
    assert around([1], [2, 3, 4, 5], 4) == ([1], [2, 3])
    assert around([1], [2], 1) == ([], [])


def test_a_text_longer_than_the_window_is_read(folder) -> None:
    model = load_masked(str(folder), "cpu")
    assert model.window == 48
    long = model.place(Context(tiny_lm(), left=" ".join(LEFTS * 5)))
    assert long.logits([Gap(0, [40], [50])]).isfinite().all()


# -- names ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("no-such-model", "there is no masked model 'no-such-model': use mini-masked, a folder"),
        ("mini", "there is no masked model 'mini'"),
        ("no/such/folder", "there is no model 'no/such/folder'"),
    ],
)
def test_a_bad_name_is_one_clear_line(name: str, told: str) -> None:
    with pytest.raises(ColdError, match=told) as caught:
        load_masked(name, "cpu")
    assert "\n" not in str(caught.value)


def test_a_folder_of_another_kind_of_model_is_refused(tmp_path) -> None:
    tiny_lm().model.save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(ColdError, match="cannot be loaded"):
        load_masked(str(tmp_path), "cpu")


@pytest.fixture
def packed(tmp_path, monkeypatch) -> Path:
    """The package's folder with a masked model in it: one random layer over the real table."""
    place = tmp_path / "bundled"
    shutil.copytree(PLACE, place)
    index = json.loads((place / "pair.json").read_text())
    given = {**index["models"]["mini"]["config"], "num_hidden_layers": 1, "reads": "both ways"}
    torch.manual_seed(0)
    llama = LlamaForCausalLM(LlamaConfig(**given))
    layers = {key: weight for key, weight in llama.model.state_dict().items() if "embed_tokens" not in key}
    save_file(pack_layers(layers), place / "mini-masked.safetensors")
    config = {key: llama.config.to_dict()[key] for key in KEPT}
    index["models"]["mini-masked"] = {"about": "a test", "parameters": 1, "config": config, "mask": "<empty_output>"}
    mark = hashlib.sha256((place / "mini-masked.safetensors").read_bytes()).hexdigest()
    index["files"]["mini-masked.safetensors"] = mark
    (place / "pair.json").write_text(json.dumps(index))
    monkeypatch.setattr(bundled.resources, "files", lambda package: tmp_path)
    bundled.index.cache_clear()
    yield place
    bundled.index.cache_clear()


def test_the_bundled_masked_model_is_expanded_over_the_pairs_table(packed) -> None:
    model = load_masked("mini-masked", "cpu")
    assert model.tokenizer.mask_token_id == 16
    assert model.fingerprint == bundled.fingerprint("mini-masked")
    assert model.window == 256
    assert model.tokenizer.get_vocab() == bundled.tokenizer().get_vocab()
    ids = torch.tensor([[0, 504, 16, 338, 253], [0, 504, 16, 338, 260]])
    said = model.model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    assert said.shape == (2, 5, 49152)
    assert (said[0, 2] - said[1, 2]).abs().max() > 1e-3  # it sees what stands behind
    assert model.model.llama.get_input_embeddings().weight[:99].equal(bundled.table()[:99])


def test_a_missing_masked_model_is_one_clear_line(packed) -> None:
    (packed / "mini-masked.safetensors").unlink()
    with pytest.raises(ColdError, match=r"mini-masked\.safetensors of the bundled models cannot be read"):
        load_masked("mini-masked", "cpu")
    index = json.loads((packed / "pair.json").read_text())
    del index["models"]["mini-masked"], index["files"]["mini-masked.safetensors"]
    (packed / "pair.json").write_text(json.dumps(index))
    bundled.index.cache_clear()
    with pytest.raises(ColdError, match="there is no masked model 'mini-masked'"):
        load_masked("mini-masked", "cpu")


# -- the command line ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def writer(tmp_path_factory) -> str:
    place = tmp_path_factory.mktemp("writer")
    tiny_lm().model.save_pretrained(place)
    tiny_tokenizer().save_pretrained(place)
    return str(place)


def test_only_some_baselines_ask_a_masked_model() -> None:
    asking = [name for name, baseline in BASELINES.items() if baseline.asks_masked]
    assert asking == ["cgmh", "cgmh-released", "tsmh", "tsmh-released", "mix-and-match"]
    model = SimpleNamespace(name="x")
    changed = BASELINES["cgmh"].with_masked(model)
    assert changed.write.masked is model
    assert not changed.reads_reverse
    assert BASELINES["cgmh"].write.masked is None


def test_a_run_names_its_masked_model_and_another_does_not_go_on_with_it(writer, folder, tmp_path, capsys) -> None:
    data, out = tmp_path / "one.jsonl", tmp_path / "run.jsonl"
    data.write_text(json.dumps({"context": LEFTS[0], "ending": "She went home."}) + "\n")
    given = ["run", "counterfactual", "--method", "mix-and-match", "--data", str(data), "--model", writer]
    given += ["--out", str(out), "--samples", "1"]
    assert run([*given, "--masked", str(folder)]) == 0, capsys.readouterr().err
    head = json.loads(out.read_text().splitlines()[0])
    assert head["masked"]["name"] == str(folder)
    assert len(head["masked"]["hash"]) == 12
    capsys.readouterr()
    assert run([*given, "--masked", "none"]) == 2
    assert "masked" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("method", "masked", "told"),
    [
        ("cold", "mini-masked", "method 'cold' asks no masked model: use --masked with cgmh, cgmh-released, tsmh"),
        ("cgmh", "nothing", "there is no masked model 'nothing'"),
    ],
)
def test_a_masked_model_that_cannot_serve_is_one_line_and_status_2(writer, tmp_path, capsys, method, masked, told):
    given = ["run", "lexical", "--method", method, "--masked", masked, "--model", writer]
    assert run([*given, "--out", str(tmp_path / "run.jsonl")]) == 2
    err = capsys.readouterr().err
    assert told in err
    assert len(err.splitlines()) == 1
