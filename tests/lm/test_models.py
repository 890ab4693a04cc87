"""Any causal language model of the library reads soft tokens as it reads hard ones, or is refused in one line."""

import copy
import json
import logging
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn import Parameter
from torch.nn.functional import one_hot
from transformers import AutoModelForCausalLM, GemmaConfig, GemmaForCausalLM

from cold.errors import ColdError
from cold.lm import Context, LanguageModel, load
from cold.lm.context import causal_mask
from cold.lm.load import choose_device, quiet
from cold.lm.prefix import Prefix
from cold.soft import SoftSequence
from cold.text import beam, complete, discretize, initialize
from small import LEFTS, small_decoder, small_problems
from tiny import ARCHS, VOCAB, tiny_lm

PADDED = VOCAB + 8
every_arch = pytest.mark.parametrize("arch", ARCHS)


def lm_with(arch: str, tied: bool) -> LanguageModel:
    """The input embeddings again as output layer, or an output layer of its own."""
    shared = tiny_lm(vocab=PADDED, arch=arch)
    model = copy.deepcopy(shared.model)
    table = model.get_input_embeddings().weight
    own = torch.randn(table.shape, generator=torch.Generator().manual_seed(1)) * 0.5
    model.get_output_embeddings().weight = table if tied else Parameter(own)
    return LanguageModel(model, shared.tokenizer, name=arch)


@pytest.fixture(params=[(arch, tied) for arch in ARCHS for tied in (True, False)], ids=str)
def lm(request) -> LanguageModel:
    return lm_with(*request.param)


def test_a_one_hot_token_is_embedded_as_the_token(lm):
    ids = torch.tensor([[1, 5, 300, PADDED - 1]])
    assert torch.allclose(lm.embed_soft(one_hot(ids, PADDED).float()), lm.embed(ids), atol=1e-5)


def test_one_hot_tokens_are_read_as_the_tokens(lm):
    ids = torch.tensor([lm.encode("The dog ran to the river.")])
    positions = torch.arange(ids.shape[1])[None]
    logits, _ = lm.read(lm.embed_soft(one_hot(ids, PADDED).float()), (), torch.ones_like(ids), positions)
    assert torch.allclose(logits, lm.model(input_ids=ids).logits, atol=1e-4)


def test_a_context_reads_a_sharp_sequence_as_the_whole_text(lm):
    context = Context(lm, "The dog ran.", "It fell.", temperature=0.01)
    y = context.y_ids(["She went home"])
    n, start = len(y[0]), len(context.left_ids[0])
    reading = context.bind(1, n).read(SoftSequence.of_ids(y, lm.vocab, lm.device), None)
    whole = torch.tensor([context.left_ids[0] + y[0] + context.right_ids[0]])
    logits = lm.model(input_ids=whole).logits
    assert torch.allclose(reading.predicted, logits[:, start - 1 : start - 1 + n], atol=1e-4)
    assert torch.allclose(reading.after, logits[:, start - 1 + n : -1], atol=1e-4)
    assert reading.after_ids.tolist() == context.right_ids


@every_arch
def test_the_scale_of_the_embeddings_is_measured(arch):
    width = 32
    assert tiny_lm(arch=arch).embedding_scale == pytest.approx(math.sqrt(width) if arch == "gemma" else 1.0, rel=1e-4)


def test_a_model_that_scales_inside_is_not_scaled_twice():
    config = GemmaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        pad_token_id=None,
    )
    lm = LanguageModel(GemmaForCausalLM(config), tiny_lm().tokenizer)
    ids = torch.tensor([lm.encode("The dog ran.")])
    positions = torch.arange(ids.shape[1])[None]
    logits, _ = lm.read(lm.embed_soft(one_hot(ids, VOCAB).float()), (), torch.ones_like(ids), positions)
    assert torch.allclose(logits, lm.model(input_ids=ids).logits, atol=1e-4)


def test_embeddings_that_are_not_linear_are_refused():
    model = copy.deepcopy(tiny_lm().model)
    model.get_input_embeddings().register_forward_hook(lambda module, ids, out: out.square())
    with pytest.raises(ColdError, match="does not embed tokens linearly"):
        LanguageModel(model, tiny_lm().tokenizer)


def test_padding_and_special_tokens_are_banned_and_nothing_else():
    lm = tiny_lm(vocab=PADDED)
    assert lm.banned.nonzero()[:, 0].tolist() == [lm.separator, *range(VOCAB, PADDED)]
    assert [i for i, string in enumerate(lm.token_strings) if not string] == [0, *range(VOCAB, PADDED)]


@pytest.fixture
def tempted(monkeypatch) -> LanguageModel:
    """A model that would rather write padding and special tokens than anything else."""
    plain = LanguageModel.logits
    monkeypatch.setattr(LanguageModel, "logits", lambda self, states: plain(self, states) + 50.0 * self.banned)
    return tiny_lm(vocab=PADDED)


@pytest.mark.parametrize(
    "start",
    [
        initialize.Greedy(),
        initialize.SoftUnroll(),
        initialize.Sampled(),
        initialize.Sampled(temperature=50.0),
        initialize.RandomLogits(3.0),
        initialize.FromText(("It fell.", "The bird sang a song in the tall tree.")),
    ],
    ids=repr,
)
def test_no_start_prefers_a_banned_token(tempted, start):
    y = start(small_problems(tempted, length=20), range(8))
    assert y.shape == (8, 20, PADDED)
    assert torch.isfinite(y).all()
    assert not tempted.banned[y.argmax(-1)].masked_fill(y.amax(-1) == y.amin(-1), False).any()


@pytest.mark.parametrize(
    "stage",
    [discretize.Argmax(), discretize.TopK(2), discretize.TopK(PADDED), beam.Beam(max_length=8)],
    ids=["argmax", "top 2", "top all", "beam"],
)
def test_no_discretizer_writes_a_banned_token(tempted, stage):
    y = torch.randn(4, 6, PADDED, generator=torch.Generator().manual_seed(0)) + 50.0 * tempted.banned
    story = Context(tempted, left=[f"{left}\n" for left in LEFTS])
    problems = replace(small_problems(tempted), story=story, widen=((0, VOCAB), (0,)))
    for row in stage(problems, y):
        assert row
        assert not tempted.banned[row].any()


@pytest.mark.parametrize("stage", [complete.GreedyCompletion(20), complete.ReleasedCompletion(20)], ids=repr)
def test_no_completion_writes_a_banned_token(tempted, stage, monkeypatch):
    seen, decode = set(), LanguageModel.decode
    monkeypatch.setattr(LanguageModel, "decode", lambda self, ids: seen.update(ids) or decode(self, ids))
    texts = stage(small_problems(tempted), [tempted.encode(" The dog")] * 2)
    assert all(text.startswith("The dog") and len(text) > 10 for text in texts)
    assert not tempted.banned[torch.tensor(sorted(seen))].any()


@every_arch
def test_every_architecture_decodes_and_its_weights_stay_frozen(arch):
    lm, back = tiny_lm(vocab=PADDED, arch=arch), tiny_lm(seed=1, vocab=PADDED, reverse=True, arch=arch)
    before = {name: weight.clone() for name, weight in lm.model.named_parameters()}
    decodings = small_decoder(steps=3)(small_problems(lm, back), seeds=[1, 2, 1, 2])
    assert [len(decoding.samples) for decoding in decodings] == [2, 2]
    for sample in (sample for decoding in decodings for sample in decoding.samples):
        assert sample.text
        assert math.isfinite(sample.energy)
        assert math.isfinite(sample.soft_energy)
        assert list(sample.terms) == ["fluency", "future", "keywords", "similarity", "fluency_reverse"]
    assert not lm.model.training
    for name, weight in lm.model.named_parameters():
        assert not weight.requires_grad, name
        assert weight.grad is None, name
        assert torch.equal(weight, before[name]), name


# -- load ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    with quiet():
        tiny_lm().model.save_pretrained(folder)
    tiny_lm().tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def spoiled(saved, tmp_path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "spoiled"))


def refusal(name: str, **options: str) -> str:
    with pytest.raises(ColdError) as error:
        load(name, **options)
    message = str(error.value)
    assert "\n" not in message
    assert len(message) < 500
    return message


def config_with(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_saved_folder_is_loaded_as_it_was(saved):
    lm, ids = load(str(saved), device="cpu"), torch.tensor([[0, 5, 9]])
    assert (lm.dtype, lm.device.type, lm.vocab, lm.reverse) == (torch.float32, "cpu", VOCAB, False)
    assert torch.equal(lm.model(input_ids=ids).logits, tiny_lm().model(input_ids=ids).logits)
    assert lm.encode(LEFTS[1]) == tiny_lm().encode(LEFTS[1])
    assert not any(weight.requires_grad for weight in lm.model.parameters())


def test_a_loaded_model_has_the_fingerprint_of_its_folder(saved, spoiled):
    config_with(spoiled, max_position_embeddings=64)
    marks = [load(str(folder), device="cpu").fingerprint for folder in (saved, saved, spoiled)]
    assert marks[0] == marks[1] != marks[2]
    assert len(marks[0]) == 12


def test_a_model_can_be_loaded_right_to_left(saved):
    assert load(str(saved), device="cpu", reverse=True).reverse


def test_bfloat16_decodes_on_a_cpu_and_its_logits_are_fp32(saved):
    lm = load(str(saved), device="cpu", dtype="bfloat16")
    assert lm.dtype == torch.bfloat16
    problems = small_problems(lm)
    reading = problems.story.bind(2, 6).read(SoftSequence(torch.zeros(2, 6, lm.vocab)), None)
    assert (reading.predicted.dtype, reading.after.dtype) == (torch.float32, torch.float32)
    for decoding in small_decoder(steps=2)(problems, seeds=[1, 1]):
        assert decoding.text
        assert math.isfinite(decoding.best.energy)


@pytest.mark.parametrize("dtype", ["int8", "float64", ""])
def test_an_unknown_dtype_is_refused(saved, dtype):
    assert f"there is no dtype {dtype!r}" in refusal(str(saved), device="cpu", dtype=dtype)


def test_float16_is_refused_on_a_cpu(saved):
    assert "float16 does not run well on a CPU" in refusal(str(saved), device="cpu", dtype="float16")


@pytest.mark.parametrize("device", ["gpu", "meta", "xla", "", "cpu:x"])
def test_an_unknown_device_is_refused(saved, device):
    assert f"there is no device {device!r}" in refusal(str(saved), device=device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_cuda_is_refused_and_auto_takes_the_cpu(saved):
    assert "torch sees no GPU" in refusal(str(saved), device="cuda")
    assert choose_device("auto") == torch.device("cpu")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_gpu_decodes_what_the_cpu_decodes(saved):
    texts = {}
    for device in ("cpu", "cuda"):
        lm, back = (load(str(saved), device=device, dtype="float32", reverse=way) for way in (False, True))
        decodings = small_decoder(steps=3)(small_problems(lm, back), seeds=[1, 2, 1, 2])
        texts[device] = [sample.text for decoding in decodings for sample in decoding.samples]
    assert texts["cpu"] == texts["cuda"]


@pytest.mark.parametrize("name", ["nothing", "./nothing", "/no/such/folder", "a/b/c", "~/nothing", "https://a/b"])
def test_an_unknown_name_is_refused_with_the_names_that_work(name):
    message = refusal(name)
    assert f"there is no model {name!r}" in message
    assert "smollm2" in message


def test_a_missing_gguf_file_is_refused(tmp_path):
    assert "there is no file" in refusal(str(tmp_path / "model.gguf"))


def test_a_known_model_that_was_not_fetched_is_refused_with_the_command(monkeypatch, tmp_path):
    monkeypatch.setenv("COLD_CACHE", str(tmp_path))
    assert "cold models get smollm2" in refusal("smollm2")


def test_a_folder_without_a_config_is_refused(spoiled):
    (spoiled / "config.json").unlink()
    assert "has no config.json" in refusal(str(spoiled))


def test_pickled_weights_are_refused_without_being_opened(spoiled):
    (spoiled / "model.safetensors").unlink()
    (spoiled / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")
    assert "no file named model.safetensors" in refusal(str(spoiled))


@pytest.mark.parametrize("size", [0, 100, 1000])
def test_damaged_weights_are_refused(spoiled, size):
    path = spoiled / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    assert "cannot be loaded" in refusal(str(spoiled))


def test_weights_that_lack_a_layer_are_refused_rather_than_made_up(spoiled):
    config_with(spoiled, num_hidden_layers=3)
    assert "lacks 9 of its weights, such as model.layers.2." in refusal(str(spoiled))


def test_weights_of_another_size_are_refused(spoiled):
    config_with(spoiled, vocab_size=100)
    assert "cannot be loaded" in refusal(str(spoiled))


@pytest.mark.parametrize("text", ["{", "{}", '{"model_type": "nonsense"}', '{"model_type": "t5"}'])
def test_a_config_of_no_causal_model_is_refused(spoiled, text):
    (spoiled / "config.json").write_text(text)
    assert "cannot be loaded" in refusal(str(spoiled))


def test_code_from_a_folder_is_never_run(spoiled):
    config_with(spoiled, model_type="own", auto_map={"AutoConfig": "own.Own", "AutoModelForCausalLM": "own.Own"})
    (spoiled / "own.py").write_text(f"open({str(spoiled / 'ran')!r}, 'w')")
    assert "cannot be loaded" in refusal(str(spoiled))
    assert not (spoiled / "ran").exists()


def test_a_folder_without_a_tokenizer_is_refused(spoiled):
    for path in spoiled.glob("tokenizer*"):
        path.unlink()
    assert "cannot be loaded" in refusal(str(spoiled))


def test_a_hub_that_does_not_answer_is_one_line(monkeypatch):
    def no_network(*args, **options):
        raise OSError("We couldn't connect to the hub\n and this goes on\n" + "for long " * 100)

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", no_network)
    assert "We couldn't connect to the hub and this goes on" in refusal("someone/something")


def test_loading_is_quiet_and_puts_the_loggers_back(saved, capfd):
    hub = logging.getLogger("huggingface_hub")
    before = hub.level
    load(str(saved), device="cpu")
    assert capfd.readouterr() == ("", "")
    assert hub.level == before


@pytest.mark.parametrize("arch", ["gpt2", "llama"])
def test_a_vocabulary_padded_for_the_gpu_is_invisible_outside(arch, monkeypatch):
    model = tiny_lm(vocab=PADDED, arch=arch)
    y, found = torch.randn(2, 4, PADDED, generator=torch.Generator().manual_seed(0)), []
    for align, words in ((1, PADDED), (64, 64 * -(-PADDED // 64))):
        monkeypatch.setattr(LanguageModel, "align", align)
        lm = LanguageModel(model.model, model.tokenizer)
        assert len(lm._aligned_table) == words
        soft = y.clone().requires_grad_(True)
        story = Context(lm, "She went home.", "He was late.")
        reading = story.bind(2, 4).read(SoftSequence(soft), None)
        assert reading.predicted.shape[-1] == PADDED
        (slope,) = torch.autograd.grad(reading.after.square().sum() + reading.predicted.square().sum(), soft)
        found.append((reading.predicted.detach(), reading.after.detach(), slope))
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, atol=1e-4 * float(one.abs().max()))


# -- reading behind a text ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("arch", "ahead"), [(arch, arch != "gemma") for arch in ARCHS])
def test_a_text_read_before_is_handed_to_the_attention_where_the_model_allows_it(arch, ahead):
    lm = tiny_lm(arch=arch)
    assert lm.looks_ahead == ahead
    assert (lm.model.config._attn_implementation == "cold") == ahead


def test_two_rows_share_one_text_and_each_reads_as_if_alone():
    lm = tiny_lm()
    assert lm.looks_ahead
    rows = torch.randn(4, 3, lm.table.shape[1], generator=torch.Generator().manual_seed(0))
    texts = Prefix.of(lm, [lm.encode("The dog ran."), lm.encode("A cat sat.")])
    there = torch.cat([texts.mask.repeat_interleave(2, 0), torch.ones(4, 3, dtype=torch.long)], 1)
    positions = texts.lengths.repeat_interleave(2)[:, None] + torch.arange(3)
    together = lm.states_behind(rows, texts.past, causal_mask(there, 3, lm.dtype), positions)
    for row in range(4):
        alone = texts.select([row // 2])
        mask = torch.cat([alone.mask, torch.ones(1, 3, dtype=torch.long)], 1)
        states, _ = lm.states(rows[row : row + 1], alone.past, mask, positions[row : row + 1])
        assert torch.allclose(together[row : row + 1], states, atol=1e-5)
