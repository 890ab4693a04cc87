"""The paper's tables: its numbers, ours, and gaps; what a run changed in its preset is in its name."""

import csv

import pytest

from cold.errors import ColdError
from cold.evaluation import tables
from cold.evaluation.evaluate import evaluate
from cold.evaluation.runs import header
from cold.recipes import preset
from evaluation.test_evaluate import line, write
from tiny import tiny_lm


def head(task: str, recipe, method: str = "cold") -> dict:
    return header(task, method, recipe, tiny_lm(), None, {"file": "dev.json", "split": "report"})


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda recipe: recipe, "COLD released"),
        (lambda recipe: recipe.without(["fluency_reverse"]), "COLD released without fluency_reverse"),
        (lambda recipe: recipe.with_(top_k=10), "COLD released top-k 10"),
        (lambda recipe: recipe.with_(steps=7), "COLD released 7 steps"),
    ],
)
def test_a_run_is_named_by_what_it_changes(change, name):
    assert tables.label(head("abductive", change(preset("abductive", "released")))) == name


def test_another_method_is_named_by_itself():
    assert tables.label(head("abductive", preset("abductive", "fast"), "left-only")) == "left-only"


def test_an_unknown_term_cannot_be_dropped():
    with pytest.raises(ColdError, match="has no term 'magic': it has fluency, fluency_reverse"):
        preset("abductive", "released").without(["magic"])


def test_our_rows_stand_beside_the_papers_and_the_rest_stays_empty(tmp_path):
    lines = [line(str(n), "The dog can run.") for n in range(3)]
    run = evaluate(write(tmp_path / "a.jsonl", *lines, **head("lexical", preset("lexical", "fast"))))
    found = tables.tables([run])
    assert [table.task for table in found] == ["abductive", "counterfactual", "lexical", "run-time"]
    assert found[3].rows[-1].cells["seconds a sample"].value == 2.0  # 2 seconds, one sample
    assert [row.name for row in found[2].rows] == [
        "TSMH (paper)",
        "NeuroLogic (paper)",
        "COLD (paper)",
        "COLD fast (tiny-llama)",
    ]
    made = tables.write(found, tmp_path / "out")
    text = made[0].read_text()
    assert "| COLD (paper) |  | 4.24 | 94.50 |  | 54.98 |" in text
    assert "| COLD fast (tiny-llama) | 3 | 2.00 [2.00, 2.00] | 100.00 [100.00, 100.00] |" in text
    assert (tmp_path / "out" / "lexical.png").stat().st_size > 5000
    assert not (tmp_path / "out" / "abductive.png").exists()
    rows = list(csv.reader((tmp_path / "out" / "lexical.csv").read_text().splitlines()))
    assert len(rows) == 5
    assert len({len(row) for row in rows}) == 1
    assert rows[-1][:3] == ["COLD fast (tiny-llama)", "3", "2.0"]
