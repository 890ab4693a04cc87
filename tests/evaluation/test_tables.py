"""The paper's tables: its numbers, ours, and gaps; what a run changed in its preset is in its name."""

import csv

import pytest

from cold.errors import ColdError
from cold.evaluation import tables
from cold.evaluation.evaluate import evaluate
from cold.evaluation.plan import TASKS, arms
from cold.evaluation.runs import METHODS, header
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
        (lambda recipe: recipe.with_(shortlist=4096), "COLD released 4096 tokens"),
        (lambda recipe: recipe.with_(steps=7), "COLD released 7 steps"),
        (lambda recipe: recipe.with_(samples=3), "COLD released 3 samples"),
    ],
)
def test_a_run_is_named_by_what_it_changes(change, name):
    assert tables.label(head("abductive", change(preset("abductive", "released")))) == name


def test_another_method_is_named_by_itself():
    given = head("abductive", preset("abductive", "fast"), "left-only")
    assert tables.label(given) == "left-only"
    assert tables.label(given | {"masked": {"name": "mini-masked"}}) == "left-only asking mini-masked"


def test_an_unknown_term_cannot_be_dropped():
    with pytest.raises(ColdError, match="has no term 'magic': it has fluency, fluency_reverse"):
        preset("abductive", "released").without(["magic"])


def test_our_rows_stand_beside_the_papers_and_the_rest_stays_empty(tmp_path):
    lines = [line(str(n), "The dog can run.") for n in range(3)]
    run = evaluate(write(tmp_path / "a.jsonl", *lines, **head("lexical", preset("lexical", "fast"))))
    found = tables.tables([run])
    assert [table.task for table in found] == [
        "abductive",
        "counterfactual",
        "lexical",
        "constraints",
        "top-k",
        "run-time",
    ]
    assert found[5].rows[-1].cells["seconds a sample"].value == 2.0  # 2 seconds, one sample
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


def test_an_ablation_has_a_table_of_its_own_with_what_it_changed(tmp_path):
    """The run that shares its examples and samples stands above it; other runs stay in the main table."""

    def run(name, recipe, ids="ab", method="cold"):
        lines = [line(one, "The dog can run.", words=()) for one in ids]
        return evaluate(write(tmp_path / f"{name}.jsonl", *lines, **head("abductive", recipe, method)))

    fast = preset("abductive", "fast")
    runs = [
        run("whole", fast),
        run("longer", fast, "abc"),
        run("cut", fast.without(["future"])),
        run("narrow", fast.with_(top_k=2)),
        run("left", fast, method="left-only"),
    ]
    found = {table.task: [row.name for row in table.rows if row.examples] for table in tables.tables(runs)}
    assert found["abductive"] == ["COLD fast (tiny-llama)", "COLD fast (tiny-llama)", "left-only (tiny-llama)"]
    assert found["constraints"] == ["COLD fast (tiny-llama)", "COLD fast without future (tiny-llama)"]
    assert found["top-k"] == ["COLD fast (tiny-llama)", "COLD fast top-k 2 (tiny-llama)"]


def test_the_plan_holds_every_run_of_the_tables_once():
    planned = list(arms(200, 50))
    assert len({arm.name for arm in planned}) == len(planned)
    assert {(arm.task, arm.method, arm.preset) for arm in planned} >= {
        (task, *what)
        for task in TASKS
        for what in [("cold", "fast"), ("cold", "paper"), ("cold", "released"), ("left-only", "fast")]
    }
    assert {arm.without for arm in planned} == {(), ("fluency",), ("future",), ("keywords",)}
    assert {arm.limit for arm in planned if arm.preset == "paper"} == {50}
    assert {arm.limit for arm in planned if arm.top_k} == {125}
    assert {arm.method for arm in planned} <= set(METHODS)
    assert {arm.method: arm.limit for arm in planned}["cgmh"] == 50
