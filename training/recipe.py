"""The recipe as values: recipe.toml beside this file, or another one given with --recipe."""

from __future__ import annotations

import tomllib
from pathlib import Path
from types import SimpleNamespace

HERE = Path(__file__).parent


def read_recipe(path: Path | None = None) -> SimpleNamespace:
    tables = tomllib.loads((path or HERE / "recipe.toml").read_text())
    return SimpleNamespace(**{name: SimpleNamespace(**table) for name, table in tables.items()})
