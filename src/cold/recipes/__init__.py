"""Recipes: energies and decoders written down in TOML, the presets among them."""

from cold.recipes.build import Job, build, listed
from cold.recipes.recipe import Recipe, preset, preset_text, presets

__all__ = ["Job", "Recipe", "build", "listed", "preset", "preset_text", "presets"]
