"""docs/paper-map.md tells the truth: every file and every name it lists exists."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROWS = re.findall(r"\| `([^`]+)` \| `([^`]+)` \|$", (ROOT / "docs/paper-map.md").read_text(), re.MULTILINE)


def test_the_map_covers_all_nine_equations_and_the_algorithm():
    page = (ROOT / "docs/paper-map.md").read_text()
    assert all(f"Eq. {n}" in page for n in range(1, 10))
    assert "Algorithm 1" in page
    assert len(ROWS) > 20


@pytest.mark.parametrize(("file", "name"), ROWS)
def test_each_listed_name_exists(file, name):
    path = ROOT / file
    if path.suffix == ".toml":
        assert name in tomllib.loads(path.read_text())
    else:
        assert re.search(rf"^(class|def) {name}\b", path.read_text(), re.MULTILINE)
