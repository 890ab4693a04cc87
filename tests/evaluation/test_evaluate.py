"""From run files to numbers: by hand where a hand can, and one table for several runs."""

import json
import math
import sys

import pytest

from cold.errors import ColdError
from cold.evaluation.evaluate import as_comparison, as_table, compare, evaluate
from tiny import tiny_lm

HEADER = {
    "kind": "header",
    "schema_version": 1,
    "task": "lexical",
    "method": "cold",
    "preset": "p",
    "data": {},
    "reverse": None,
    "dtype": "float32",
    "model": {"name": "tiny", "hash": "h", "vocabulary": 512},
}


def line(
    key: str, text: str, others: tuple[str, ...] = (), references=("The dog runs.",), energy=1.0, **inputs
) -> dict:
    samples = [{"text": some, "energy": energy} for some in (text, *others)]
    inputs = inputs or {"words": ["dog", "run"]}
    about = {"kind": "example", "id": key, "inputs": inputs, "references": list(references), "seconds": 2.0}
    return {**about, "text": text, "samples": samples, "selected": 0}


def write(path, *lines, **header):
    path.write_text("".join(json.dumps(entry) + "\n" for entry in [{**HEADER, **header}, *lines]))
    return path


def test_lexical_numbers_by_hand(tmp_path):
    run = write(
        tmp_path / "a.jsonl",
        line("1", "The dog runs.", ("A dog sat.",)),
        line("2", "I run and run and run and run and run.", ("I run.",), energy=None),
    )
    found = evaluate(run)
    assert found.each["coverage %"] == [50.0, 50.0]
    assert found.each["coverage % (inflected)"] == [100.0, 50.0]
    assert found.each["words found"] == [1.0, 1.0]
    assert found.each["occurrences"] == [1.0, 5.0]
    assert found.each["repeated 3-gram %"] == [0.0, 100.0]
    assert found.each["words"] == [3.0, 10.0]
    assert found.each["ROUGE-L"][0] == pytest.approx(100.0)
    assert found.estimates()["coverage %"] == (50.0, 50.0, 50.0)
    assert found.estimates()["energy"].value == 1.0  # of the one that has one
    assert math.isnan(found.each["energy"][1])
    assert "no encoder: no BERTScore" in found.notes


def test_counterfactual_has_both_readings_of_the_minimal_edit(tmp_path):
    told = {"ending": "He took the train.", "left": "There was no train."}
    run = write(
        tmp_path / "a.jsonl",
        line("1", "He took the bus.", references=["He took the bus."], **told),
        line("2", "He took the train.", references=["He took the bus."], **told),
        task="counterfactual",
    )
    found = evaluate(run)
    assert found.each["edit overlap"] == [100.0, 0.0]
    assert found.each["edit similarity"] == [75.0, 100.0]
    assert "BLEU-4" not in found.whole


def test_without_references_the_rest_is_still_said(tmp_path):
    found = evaluate(write(tmp_path / "a.jsonl", line("1", "The dog runs.", references=[])))
    assert "ROUGE-L" not in found.each
    assert "1 examples have no references" in found.notes[0]
    assert found.each["coverage %"] == [50.0]


def test_perplexity_is_that_of_the_judge_and_says_what_it_shares(tmp_path):
    found = evaluate(write(tmp_path / "a.jsonl", line("1", "The dog runs.")), judge=tiny_lm())
    assert found.each["perplexity"][0] > 1
    assert any("perplexity: under" in note and "shares" in note for note in found.notes)


def test_two_runs_side_by_side_and_their_difference(tmp_path):
    good, bad = (
        [line(str(n), text, references=("The dog can run.",)) for n in range(12)]
        for text in ("The dog can run.", "The dog sat down.")
    )
    first, second = (
        evaluate(write(tmp_path / name, *lines)) for name, lines in (("bad.jsonl", bad), ("good.jsonl", good))
    )
    pair = compare(first, second)["coverage %"]
    assert (pair.difference, pair.low, pair.high) == (50.0, 50.0, 50.0)
    assert pair.p < 0.01
    assert compare(first, first)["coverage %"].p == 1.0
    assert compare(first, first)["BLEU-4"] == (0.0, 0.0, 0.0, 1.0)
    bleu = compare(first, second)["BLEU-4"]
    assert bleu.difference == pytest.approx(second.whole["BLEU-4"].value - first.whole["BLEU-4"].value)
    assert bleu.p < 0.01
    table = as_table([first, second])
    assert "bad" in table.splitlines()[0]
    assert "100.00 [100.00, 100.00]" in table
    assert "+50.00" in as_comparison(first, second)


def test_what_is_no_run_or_has_nothing_in_common_is_one_clear_line(tmp_path):
    (tmp_path / "x.jsonl").write_text("{}\n")
    with pytest.raises(ColdError, match="is no run file"):
        evaluate(tmp_path / "x.jsonl")
    with pytest.raises(ColdError, match="no finished example"):
        evaluate(write(tmp_path / "empty.jsonl"))
    one, other = (evaluate(write(tmp_path / f"{key}.jsonl", line(key, "A dog."))) for key in "ab")
    with pytest.raises(ColdError, match="no example in common"):
        compare(one, other)


def test_a_metric_whose_library_is_missing_is_left_out_with_a_note(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    found = evaluate(write(tmp_path / "a.jsonl", line("1", "The dog runs.", ("A dog.",))))
    assert "BLEU-4" not in found.whole
    assert "ROUGE-L" in found.each
    assert [note for note in found.notes if "pip install cold-decoding[eval]" in note]
