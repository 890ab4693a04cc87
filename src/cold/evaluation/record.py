"""Models, versions and samples as plain JSON: the same wherever a result is written down."""

from __future__ import annotations

import math
import platform
from typing import Any

import cold
from cold.baselines.proposals import MaskedModel
from cold.decoder import Sample
from cold.lm.model import LanguageModel


def setting(lm: LanguageModel, reverse: LanguageModel | None) -> dict[str, Any]:
    """What a text came from, beside the recipe."""
    import numpy
    import torch
    import transformers

    return {
        "versions": {
            "cold": cold.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "numpy": numpy.__version__,
        },
        "model": describe(lm),
        "reverse": describe(reverse) if reverse else None,
        "dtype": str(lm.dtype).removeprefix("torch."),
        "device": str(lm.device),
    }


def describe(lm: LanguageModel | MaskedModel) -> dict[str, Any]:
    parameters = sum(p.numel() for p in lm.model.parameters())
    return {"name": lm.name, "hash": lm.fingerprint, "parameters": parameters, "vocabulary": lm.vocab}


def describe_sample(sample: Sample) -> dict[str, Any]:
    return {**sample._asdict(), "terms": {name: score._asdict() for name, score in sample.terms.items()}}


def plain(value: Any) -> Any:
    """Tuples become lists and numbers that JSON lacks become null."""
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
