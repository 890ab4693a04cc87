"""Load a language model by name: a known one, a hub id, a local folder or a GGUF file; frozen, placed once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from cold.errors import ColdError
from cold.lm import bundled, catalog
from cold.lm.cpu import keep_memory
from cold.lm.masked import BOTH_WAYS, MaskedLlama
from cold.lm.model import LanguageModel
from cold.lm.quiet import quiet


def load(name: str, device: str = "auto", dtype: str = "auto", reverse: bool = False) -> LanguageModel:
    """The model `name`: mini, smollm2, a hub id, a folder, or a .gguf file. `reverse`: it reads right to left."""
    place = choose_device(device)
    kind = choose_dtype(dtype, place)
    if name in bundled.names():
        model, tokenizer, mark = bundled.model(name, kind), bundled.tokenizer(), bundled.fingerprint(name)
    else:
        folder = find_folder(name)
        model, tokenizer = _read(str(folder or name), kind, "AutoModelForCausalLM")
        mark = catalog.fingerprint(folder) if folder else ""
    reads = getattr(model.config, "reads", "")  # written by training/
    if reads == BOTH_WAYS:
        raise ColdError(f"model {name!r} was trained to fill gaps and cannot write: give a causal one")
    reverse = reverse or reads == "right-to-left"
    if place.type == "cpu":
        keep_memory()
    return LanguageModel(model.to(place), tokenizer, name, reverse, fingerprint=mark)


def save(lm: LanguageModel, folder: Path) -> None:
    """An ordinary Hugging Face folder; nothing that is there is written over."""
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise ColdError(f"folder {folder} cannot be made ({error.strerror}): name a new one") from error
    with quiet():
        lm.model.save_pretrained(folder)
        lm.tokenizer.save_pretrained(folder)


def choose_device(device: str) -> torch.device:
    """auto: a GPU if there is one."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ColdError("device cuda was asked for, but torch sees no GPU: use --device cpu, or a CUDA build of torch")
    try:
        place = torch.device(device)
        torch.zeros(1, device=place).item()  # torch knows more names than devices
    except (RuntimeError, NotImplementedError) as error:
        raise ColdError(f"there is no device {device!r}: use cpu, cuda or auto") from error
    return place


def choose_dtype(dtype: str, place: torch.device) -> torch.dtype:
    """auto: bf16 on a GPU, fp32 elsewhere. Soft sequences and energies are fp32 anyway."""
    known = {
        "auto": torch.bfloat16 if place.type == "cuda" else torch.float32,
        "float32": torch.float32,
        "bfloat16": torch.bfloat16,
        "float16": torch.float16,
    }
    if dtype not in known:
        raise ColdError(f"there is no dtype {dtype!r}: use one of {', '.join(known)}")
    if known[dtype] == torch.float16 and place.type == "cpu":
        raise ColdError("float16 does not run well on a CPU: use float32 or bfloat16")
    return known[dtype]


def find_folder(name: str) -> Path | None:
    """Where the model lies on disk, or None for the hub."""
    path = Path(name).expanduser()
    if path.suffix == ".gguf":
        if not path.is_file():
            raise ColdError(f"there is no file {name}: check the path of the GGUF file")
        return catalog.from_gguf(path)
    if name in catalog.KNOWN:
        found = catalog.find(name)
        if found is None:
            raise ColdError(f"model {name!r} is not here yet: run `cold models get {name}` once, or use mini")
        return found
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ColdError(f"folder {name} has no config.json: give the folder of a Hugging Face model")
        return path
    if name.count("/") != 1 or os.sep != "/" or path.is_absolute() or name.startswith("."):
        known = ", ".join([*bundled.names(), *catalog.KNOWN])
        raise ColdError(
            f"there is no model {name!r}: use {known}, a folder, a .gguf file or a hub id such as openai-community/gpt2"
        )
    return None


def read_masked(source: str) -> tuple[Any, Any]:
    """A masked LM of the library in fp32, or one that training.export wrote, which is a Llama to the library."""
    from transformers import AutoConfig

    try:
        with quiet():
            reads = getattr(AutoConfig.from_pretrained(source, trust_remote_code=False), "reads", "")
    except (OSError, ValueError) as error:
        raise _unreadable(source, error) from error
    if reads == BOTH_WAYS:
        llama, tokenizer = _read(source, torch.float32, "AutoModelForCausalLM")
        return MaskedLlama(llama), tokenizer
    return _read(source, torch.float32, "AutoModelForMaskedLM")


def load_classifier(source: str, lm: LanguageModel) -> Any:
    """A sequence classifier in fp32 where the LM is; it must call every token by the LM's number."""
    folder = find_folder(source)
    model, tokenizer = _read(str(folder or source), torch.float32, "AutoModelForSequenceClassification")
    text = "A small dog ran to the river, and then it slept."
    if tokenizer.encode(text, add_special_tokens=False) != lm.encode(text):
        raise ColdError(
            f"the classifier {source!r} has another vocabulary than {lm.name!r}: take one that was trained from it"
        )
    return model.to(lm.device).eval().requires_grad_(False)


def _read(source: str, dtype: torch.dtype, kind: str) -> tuple[Any, Any]:
    """safetensors only, and never code from a repository. `kind`: a class of transformers."""
    import transformers

    try:
        with quiet():
            model, report = getattr(transformers, kind).from_pretrained(
                source, dtype=dtype, use_safetensors=True, trust_remote_code=False, output_loading_info=True
            )
            tokenizer = transformers.AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise _unreadable(source, error) from error
    if missing := sorted(report["missing_keys"]):  # the library would fill them with random numbers
        raise ColdError(
            f"model {source!r} lacks {len(missing)} of its weights, such as {missing[0]}: "
            "its files are incomplete or not those of its config.json; fetch it again"
        )
    return model, tokenizer


def _unreadable(source: str, error: Exception) -> ColdError:
    reason = " ".join(str(error).split())[:200]
    return ColdError(f"model {source!r} cannot be loaded ({reason}): check the name, the folder or the network")
