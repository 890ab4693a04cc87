"""Energy-based constrained text generation with Langevin dynamics."""

__version__ = "0.1.0"
