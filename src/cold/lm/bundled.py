"""The models that come with the package: `mini`, `mini-reverse` (right to left), `mini-masked` (both ways)."""

from __future__ import annotations

import hashlib
import json
import lzma
from functools import cache
from importlib import resources
from typing import Any

import torch
from safetensors.torch import load as parse_tensors
from torch import Tensor

from cold.errors import ColdError
from cold.lm.masked import MaskedLlama
from cold.lm.pack import expand, expand_table
from cold.lm.quiet import quiet

INDEX = "pair.json"
MASKED = "mini-masked"
FIX = "the installation is damaged; install cold-decoding again"


@cache
def index() -> dict[str, Any]:
    """What is there: each model's configuration, and each file's sha256."""
    try:
        found: dict[str, Any] = json.loads(_read(INDEX))
    except ValueError as error:
        raise ColdError(f"{INDEX} of the bundled models cannot be read ({error}): {FIX}") from error
    return found


def names() -> list[str]:
    return list(index()["models"])


def about(name: str) -> str:
    entry = index()["models"][name]
    return f"{entry['parameters'] / 1e6:.1f} M parameters, Apache-2.0. {entry['about']}"


def fingerprint(name: str) -> str:
    """Twelve hex digits, as for any other model."""
    return str(_entry("files", f"{name}.safetensors"))[:12]


def model(name: str, dtype: torch.dtype) -> Any:
    """A LlamaForCausalLM like any other, expanded from its few bytes."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(**_entry("models", name)["config"])
    packed = parse_tensors(_checked(f"{name}.safetensors"))
    state = {f"model.{key}": weight for key, weight in _layers(packed).items()}
    state["model.embed_tokens.weight"] = state["lm_head.weight"] = table()
    with quiet(), torch.device("meta"):
        whole = LlamaForCausalLM(config)
    whole = whole.to_empty(device="cpu")
    whole.load_state_dict(state, assign=True, strict=True)
    whole.tie_weights()
    whole.model.rotary_emb = type(whole.model.rotary_emb)(config)  # its frequencies are no weights: made, not loaded
    return whole.to(dtype)


def masked(dtype: torch.dtype) -> MaskedLlama:
    """The same kind of network, reading both ways."""
    return MaskedLlama(model(MASKED, dtype))


@cache
def table() -> Tensor:
    """The word embeddings of all of them [words, width]."""
    return expand_table(parse_tensors(_checked("table.safetensors")))


def tokenizer(**roles: str) -> Any:
    """SmolLM2's, whose vocabulary they share. `roles`: more of its tokens with a meaning, such as mask_token."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer.from_str(lzma.decompress(_checked("tokenizer.json.xz")).decode())
    return PreTrainedTokenizerFast(tokenizer_object=core, **index()["tokenizer"], **roles)


def masked_tokenizer() -> Any:
    """The same; a token that no text contains stands for what is hidden."""
    return tokenizer(mask_token=_entry("models", MASKED)["mask"])


def _layers(packed: dict[str, Tensor]) -> dict[str, Tensor]:
    """name.q and name.scale become name; what was kept in full stays."""
    whole = {key: weight.float() for key, weight in packed.items() if not key.endswith((".q", ".scale"))}
    for key in packed:
        if key.endswith(".q"):
            stem = key.removesuffix(".q")
            whole[stem] = expand({"q": packed[key], "scale": packed[f"{stem}.scale"]})
    return whole


def _entry(kind: str, name: str) -> Any:
    try:
        return index()[kind][name]
    except KeyError as error:
        raise ColdError(f"{name} is not among the bundled models: {FIX}") from error


def _checked(file: str) -> bytes:
    data = _read(file)
    if (found := hashlib.sha256(data).hexdigest()) != (wanted := _entry("files", file)):
        raise ColdError(f"{file} of the bundled models has sha256 {found[:12]}, expected {wanted[:12]}: {FIX}")
    return data


def _read(file: str) -> bytes:
    try:
        return (resources.files("cold") / "bundled" / file).read_bytes()
    except OSError as error:
        raise ColdError(f"{file} of the bundled models cannot be read ({error.strerror}): {FIX}") from error
