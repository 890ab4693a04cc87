"""Differentiable constraints on soft sequences, one per file, and the energy that sums them."""

from cold.constraints.at import At
from cold.constraints.base import Constraint, Function, mean, total
from cold.constraints.classifier import Classifier
from cold.constraints.count import Count
from cold.constraints.ends import Ends
from cold.constraints.energy import Energy
from cold.constraints.fluency import Fluency
from cold.constraints.future import Future
from cold.constraints.keywords import Keywords
from cold.constraints.meaning import Meaning
from cold.constraints.probe import Probe, train_probe
from cold.constraints.similarity import Similarity

__all__ = [
    "At",
    "Classifier",
    "Constraint",
    "Count",
    "Ends",
    "Energy",
    "Fluency",
    "Function",
    "Future",
    "Keywords",
    "Meaning",
    "Probe",
    "Similarity",
    "mean",
    "total",
    "train_probe",
]
