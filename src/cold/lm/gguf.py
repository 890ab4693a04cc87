"""GGUF to a Hugging Face folder: each weight = scale * q + min, computed once and kept as safetensors."""

import errno
import importlib.util
import mmap
import os
import shutil
import struct
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any, NamedTuple

from cold.errors import ColdError
from cold.lm.quiet import quiet

# Value kinds of GGUF metadata (ggml/docs/gguf.md); 8 is text and 9 is an array.
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, ARRAY = 8, 9
FULL = (0, 28, 30)  # tensor types F32, F64, BF16: stored in full, not packed into few bits
CONTROL = 3  # token type of <|endoftext|> and its like
CUT = "the download was probably cut short; fetch it again"


class Header(NamedTuple):
    """What stands before the weights: metadata, each tensor's storage type, and the file length they need."""

    meta: dict[str, Any]
    types: dict[str, int]
    length: int


class Cursor:
    """Reads forward and never past the end: a damaged length is an error, not a long loop or a huge list."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.at = data, 0

    def take(self, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values

    def text(self) -> str:
        (length,) = self.take("Q")
        return bytes(self.take(f"{length}s")[0]).decode()

    def value(self, kind: int) -> Any:
        if kind == TEXT:
            return self.text()
        if kind != ARRAY:
            return self.take(SCALARS[kind])[0]
        inner, count = self.take("IQ")
        return [self.text() for _ in range(count)] if inner == TEXT else list(self.take(f"{count}{SCALARS[inner]}"))


def read_header(path: Path) -> Header:
    """The header of a GGUF file that is whole; gguf.GGUFReader would take 5 s and can loop on a damaged length."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            if file.read(4) != b"GGUF":
                cause = CUT if size < 4 else "it is some other kind of file; give the path of a .gguf file"
                raise ColdError(f"{path.name} cannot be read as GGUF (it does not start with 'GGUF'): {cause}")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                header = _parse(Cursor(data))
    except OSError as error:
        raise ColdError(f"{path} cannot be opened ({error.strerror}): check the path") from error
    except ColdError:
        raise
    except (struct.error, LookupError, ValueError, TypeError, ArithmeticError, MemoryError) as error:
        raise ColdError(f"{path.name} cannot be read as GGUF (its header ends early or is damaged): {CUT}") from error
    if size < header.length:
        short = f"tensor data ends early, {header.length - size:,} bytes missing"
        raise ColdError(f"{path.name} cannot be read as GGUF ({short}): {CUT}")
    return header


def _parse(cursor: Cursor) -> Header:
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    _, version, tensors, keys = cursor.take("4sIQQ")
    if version not in (2, 3):
        raise ValueError(f"version {version}")
    meta: dict[str, Any] = {}
    for _ in range(keys):
        name, (kind,) = cursor.text(), cursor.take("I")
        meta[name] = cursor.value(kind)
    types, needed = {}, 0
    for _ in range(tensors):
        name, (axes,) = cursor.text(), cursor.take("I")
        count = 1
        for axis in cursor.take(f"{axes}Q"):
            count *= axis
        types[name], offset = cursor.take("IQ")
        block, width = GGML_QUANT_SIZES[GGMLQuantizationType(types[name])]
        needed = max(needed, offset + count // block * width)
    if not types:
        raise ValueError("no tensors")
    align = int(meta.get("general.alignment", 32))
    return Header(meta, types, -(-cursor.at // align) * align + needed)


def convert(gguf: Path, folder: Path) -> None:
    """Write `folder` so that from_pretrained(folder) needs neither the network nor the gguf package."""
    if not all(importlib.util.find_spec(name) for name in ("gguf", "accelerate")):
        raise ColdError('reading a GGUF file needs the packages gguf and accelerate: pip install "cold-decoding[gguf]"')
    header = read_header(gguf)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as room:
        work = Path(room) / folder.name
        try:
            with silence():
                _write(gguf, header, work)
        except Exception as error:  # whatever transformers meets in a file it did not expect
            reason = str(error).strip().split("\n")[0] or type(error).__name__
            full = isinstance(error, OSError) and error.errno == errno.ENOSPC
            fix = (
                f"make room in {folder.parent}"
                if full
                else "the file is damaged or of a kind unknown here; try another"
            )
            raise ColdError(f"{gguf.name} could not be converted ({reason}): {fix}") from error
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(work, folder)


def _write(gguf: Path, header: Header, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = {"gguf_file": gguf.name, "local_files_only": True}
    smollm = header.meta.get("tokenizer.ggml.pre") == "smollm"
    tokenizer = _smollm(header.meta) if smollm else AutoTokenizer.from_pretrained(gguf.parent, **source)
    model, told = AutoModelForCausalLM.from_pretrained(
        gguf.parent, **source, dtype=torch.float32, output_loading_info=True
    )
    if missing := sorted(told["missing_keys"]):  # transformers would fill them with random numbers and go on
        raise ValueError(f"it lacks the weights {', '.join(missing[:3])}")
    # A model read from GGUF refuses save_pretrained, being "quantized": its weights go into a fresh one.
    config = model.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    with torch.device("meta"):
        fresh = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    fresh.load_state_dict(model.state_dict(), assign=True)
    fresh.tie_weights()
    fresh.generation_config = model.generation_config
    weights = fresh.state_dict()
    if not all(bool(weight.isfinite().all()) for weight in weights.values()):
        raise ValueError("some weights are not finite")
    if any(kind not in FULL for kind in header.types.values()):
        # By address, so that tied weights stay one tensor and are written once.
        halves = {weight.data_ptr(): narrow(weight) for weight in weights.values()}
        weights = {name: halves[weight.data_ptr()] for name, weight in weights.items()}
    # config.json keeps saying float32, so that a plain from_pretrained computes in float32, as a CPU should.
    fresh.save_pretrained(folder, state_dict=weights)
    tokenizer.save_pretrained(folder)
    for path in folder.iterdir():  # safetensors makes its file private, also in a cache that is shared
        shutil.copymode(folder / "config.json", path)


def narrow(weight: Any) -> Any:
    """Half precision for matrices dequantized from few bits: relative error <= 2^-11, or left as it is.

    Measured on SmolLM2 Q4_1: largest relative error 4.9e-4, 52% of the weights exact, 269 MB instead of 538.
    """
    half = weight.half()
    close = bool(((half.float() - weight).abs() <= 1e-3 * weight.abs()).all())
    return half if close and weight.ndim > 1 else weight


def _smollm(meta: dict[str, Any]) -> Any:
    """SmolLM's own tokenizer; transformers does not know the 'smollm' splitting and would not split off digits."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokens, kinds = meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ")) for merge in meta["tokenizer.ggml.merges"]]
    core = Tokenizer(models.BPE(vocab={token: index for index, token in enumerate(tokens)}, merges=merges))
    digits, bytelevel = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.pre_tokenizer = pre_tokenizers.Sequence([digits, bytelevel])
    core.decoder = decoders.ByteLevel()
    control = [token for token, kind in zip(tokens, kinds, strict=True) if kind == CONTROL]
    core.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in control])
    roles = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    ids = {role: meta.get(f"tokenizer.ggml.{name}_token_id") for role, name in roles.items()}
    named = {f"{role}_token": tokens[index] for role, index in ids.items() if index is not None}
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        model_max_length=meta[f"{meta['general.architecture']}.context_length"],
        clean_up_tokenization_spaces=False,
        # Named too, so that all_special_ids lists every token that must never be sampled.
        additional_special_tokens=[token for token in control if token not in named.values()],
        chat_template=meta.get("tokenizer.chat_template"),
        **named,
    )


@contextmanager
def silence() -> Iterator[None]:
    """`quiet`, and no warnings; the bar of the GGUF reader obeys no setting: only its stream can be taken away."""
    with quiet(), warnings.catch_warnings(), open(os.devnull, "w") as nowhere, redirect_stderr(nowhere):
        warnings.simplefilter("ignore")
        yield
