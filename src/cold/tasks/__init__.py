"""The paper's three tasks, and sampling from any energy."""

from cold.tasks.many import decode_many
from cold.tasks.solve import abductive, counterfactual, decode, lexical, sample

__all__ = ["abductive", "counterfactual", "decode", "decode_many", "lexical", "sample"]
