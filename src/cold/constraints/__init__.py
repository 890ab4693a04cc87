"""Differentiable constraints on soft sequences, one per file, and the energy that sums them."""

from cold.constraints.base import Constraint, Function, mean, total
from cold.constraints.energy import Energy
from cold.constraints.fluency import Fluency
from cold.constraints.future import Future
from cold.constraints.keywords import Keywords
from cold.constraints.similarity import Similarity

__all__ = ["Constraint", "Energy", "Fluency", "Function", "Future", "Keywords", "Similarity", "mean", "total"]
