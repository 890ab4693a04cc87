"""What the README shows runs as it stands."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text()


@pytest.mark.lm
def test_the_python_of_the_readme_runs(smollm2, monkeypatch, capsys):
    import cold

    monkeypatch.setattr(cold, "load", lambda name: smollm2, raising=False)
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    space: dict[str, object] = {}
    for block in blocks:
        exec(block, space)
    assert capsys.readouterr().out.strip()
    assert space["energy"].names == ["fluency", "future", "sure"]  # type: ignore[attr-defined]


def test_every_command_of_the_readme_exists():
    from cold.cli.app import command

    names = set(command().commands)
    shown = set(re.findall(r"^(?:\$ |\.venv/bin/)cold (\w+)", README, re.MULTILINE))
    assert shown
    assert shown <= names


def test_there_are_about_twenty_public_names_and_all_of_them_load():
    import cold

    assert 18 <= len(cold.__all__) <= 28
    assert all(getattr(cold, name) is not None for name in cold.__all__)
