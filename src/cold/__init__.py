"""Energy-based constrained text generation with Langevin dynamics: COLD decoding on any causal language model."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from cold.constraints import Constraint, Energy, Fluency, Function, Future, Keywords, Similarity, mean, total
    from cold.decoder import Decoder, Decoding
    from cold.errors import ColdError
    from cold.generate import cold_generate
    from cold.lm import Context, LanguageModel
    from cold.lm.load import load
    from cold.recipes import Recipe
    from cold.sampling import AdamLangevin, Langevin, run
    from cold.soft import SoftSequence
    from cold.tasks import abductive, counterfactual, decode, decode_many, lexical, sample

# Loaded on first use, so that `cold --help` does not wait for torch.
_HOMES = {
    "cold.constraints": "Constraint Energy Fluency Function Future Keywords Similarity mean total",
    "cold.decoder": "Decoder Decoding",
    "cold.errors": "ColdError",
    "cold.generate": "cold_generate",
    "cold.lm": "Context LanguageModel load",
    "cold.recipes": "Recipe",
    "cold.sampling": "AdamLangevin Langevin run",
    "cold.soft": "SoftSequence",
    "cold.tasks": "abductive counterfactual decode decode_many lexical sample",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [  # noqa: RUF022, in the order of the walk
    "load",
    "LanguageModel",
    "Context",
    "SoftSequence",
    "Fluency",
    "Future",
    "Similarity",
    "Keywords",
    "Function",
    "Constraint",
    "Energy",
    "total",
    "mean",
    "Langevin",
    "AdamLangevin",
    "run",
    "Decoder",
    "Decoding",
    "Recipe",
    "lexical",
    "abductive",
    "counterfactual",
    "sample",
    "decode",
    "decode_many",
    "cold_generate",
    "ColdError",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'cold' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
