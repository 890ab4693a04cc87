"""The pair that comes with the package: whole, small, ordinary, and each reading in its own direction."""

import math
import shutil
from importlib import resources
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from cold.errors import ColdError
from cold.lm import bundled, load
from cold.lm.load import save
from cold.lm.partner import find_partner, shares_vocabulary
from tiny import tiny_lm
from training.evaluate import bits_per_character, read_texts

PAIR = ["mini", "mini-reverse"]
PLACE = Path(str(resources.files("cold"))) / "bundled"
STORIES = read_texts(Path(__file__).parents[2] / "training" / "prompts" / "stories.txt")[:20]


@pytest.fixture(scope="module")
def pair():
    return {name: load(name, device="cpu") for name in PAIR}


def bits(lm, reverse: bool) -> float:
    ids = [lm.encode(text) for text in STORIES]
    return bits_per_character(lm.model, ids, sum(map(len, STORIES)), lm.separator, reverse)[1]


def test_the_pair_has_at_most_32_megabytes_the_masked_model_15_and_all_48() -> None:
    sizes = {file.stem: file.stat().st_size for file in PLACE.iterdir() if file.name != "pair.json"}
    mine = sizes.get(bundled.MASKED, 0)
    assert sum(sizes.values()) - mine <= 32_000_000
    assert mine <= 15_000_000
    assert sum(sizes.values()) <= 48_000_000


def test_each_is_an_ordinary_llama_that_knows_its_direction(pair) -> None:
    for name, lm in pair.items():
        assert type(lm.model).__name__ == "LlamaForCausalLM"
        assert 25e6 < sum(p.numel() for p in lm.model.parameters()) < 42e6
        assert lm.reverse == (name == "mini-reverse")
        assert lm.model.get_input_embeddings().weight is lm.model.get_output_embeddings().weight
        assert lm.fingerprint


def test_each_finds_stories_likely_in_its_own_direction_and_absurd_in_the_other(pair) -> None:
    # these stories were prompts for the sampled text: a check that the weights are whole, not a measure of quality
    assert bits(pair["mini"], reverse=False) < 1.15
    assert bits(pair["mini-reverse"], reverse=True) < 1.25
    assert bits(pair["mini-reverse"], reverse=True) < 1.03 * bits(pair["mini"], reverse=False)
    assert bits(pair["mini"], reverse=True) > 2
    assert bits(pair["mini-reverse"], reverse=False) > 2


def test_the_reverse_model_knows_where_a_text_begins(pair) -> None:
    lm = pair["mini-reverse"]
    # of the length of a story: it has seen few shorter ones
    rest = " I looked for him all day, but I could not find him. In the evening he came back on his own."
    opening = lm.encode("My dog ran away on Monday." + rest)  # without a space: nothing stands before it
    going_on = lm.encode(" He ran away." + rest)
    ends = []
    for ids in (opening, going_on):
        logits = lm.model(torch.tensor([[lm.separator, *reversed(ids)]])).logits[0, -1]
        ends.append(float(logits.softmax(-1)[lm.separator]))
    assert ends[0] > 0.9
    assert ends[1] < 0.2


def test_a_folder_of_it_opens_with_the_library_alone(pair, tmp_path) -> None:
    save(pair["mini-reverse"], tmp_path / "there")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "there")
    ids = AutoTokenizer.from_pretrained(tmp_path / "there")("The dog ran.", return_tensors="pt").input_ids
    assert torch.allclose(model(ids).logits, pair["mini-reverse"].model(ids).logits, atol=1e-3)
    assert load(str(tmp_path / "there"), device="cpu").reverse
    with pytest.raises(ColdError, match="name a new one"):
        save(pair["mini"], tmp_path / "there")


def test_a_masked_model_is_refused_as_a_writer(pair, tmp_path) -> None:
    save(pair["mini"], tmp_path / "masked")
    config = tmp_path / "masked" / "config.json"
    config.write_text(config.read_text().replace("left-to-right", "both ways"))
    with pytest.raises(ColdError, match="cannot write"):
        load(str(tmp_path / "masked"), device="cpu")


@pytest.mark.parametrize("damage", ["cut", "flipped", "missing", "index"])
def test_a_damaged_file_gives_one_clear_line(damage: str, tmp_path, monkeypatch) -> None:
    shutil.copytree(PLACE, tmp_path / "bundled")
    file = tmp_path / "bundled" / ("pair.json" if damage == "index" else "mini.safetensors")
    data = bytearray(file.read_bytes())
    if damage == "flipped":
        data[len(data) // 2] ^= 1
    file.write_bytes(data[: len(data) // 2] if damage in ("cut", "index") else data)
    if damage == "missing":
        file.unlink()
    monkeypatch.setattr(bundled.resources, "files", lambda package: tmp_path)
    bundled.index.cache_clear()
    try:
        with pytest.raises(ColdError, match="install cold-decoding again") as caught:
            load("mini", device="cpu")
        assert "\n" not in str(caught.value)
    finally:
        bundled.index.cache_clear()


# -- partners ------------------------------------------------------------------------------------------------


def test_auto_takes_the_bundled_reverse_model_for_its_vocabulary_and_says_so(pair) -> None:
    found = find_partner(pair["mini"], "auto")
    assert found.reverse is not None
    assert found.reverse.name == "mini-reverse"
    assert "mini-reverse reads right to left for 'mini'" in found.note


def test_auto_finds_nothing_for_another_vocabulary_and_says_how_to_train(pair) -> None:
    found = find_partner(tiny_lm(), "auto")
    assert found.reverse is None
    assert "docs/train-a-reverse-model.md" in found.note
    assert find_partner(pair["mini"], "none") == (None, "")
    assert find_partner(tiny_lm(), tiny_lm(reverse=True)).reverse is tiny_lm(reverse=True)


@pytest.mark.lm
def test_smollm2_shares_its_vocabulary_with_the_pair(smollm2) -> None:
    assert shares_vocabulary(smollm2)
    text = "It's 12:30, and Anna's café isn't open yet!\n\n(She waits.)"
    assert smollm2.encode(text) == load("mini", device="cpu").encode(text)


def test_both_directions_agree_which_of_two_texts_is_english(pair) -> None:
    good, bad = "She went to the store to buy some milk.", "She store the to went milk some buy to."
    for lm in pair.values():
        scores = [
            bits_per_character(lm.model, [lm.encode(text)], len(text), lm.separator, lm.reverse)[1]
            for text in (good, bad)
        ]
        assert math.isfinite(scores[0])
        assert scores[0] < scores[1] / 1.5
