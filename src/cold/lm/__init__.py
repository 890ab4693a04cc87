"""Language models: load, freeze, embed, and read soft tokens between texts."""

from cold.lm.context import Context
from cold.lm.load import load
from cold.lm.model import LanguageModel

__all__ = ["Context", "LanguageModel", "load"]
