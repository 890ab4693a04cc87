"""Samplers: kernels that know a tensor and an energy, and the loop that runs them."""

from cold.sampling.langevin import AdamLangevin, Langevin, State
from cold.sampling.run import run

__all__ = ["AdamLangevin", "Langevin", "State", "run"]
