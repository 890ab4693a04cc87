"""The public files as they are, and what is wrong with a broken one, line by line."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cold.errors import ColdError
from cold.evaluation.datasets import TASKS, Broken, Item, in_split, read, sample_file, spread, tuned_on
from cold.tasks import examples

ANLG = {"a-1": {"obs1": "It rained.", "obs2": "He was wet.", "gold_labels": ["He had no coat.", "He went out."]}}
TIMETRAVEL = {
    "story_id": "t1",
    "premise": "Jon went to a store.",
    "initial": "He sold a car.",
    "counterfactual": "He sold a hat.",
    "original_ending": "He got money. He was glad.",
    "edited_endings": [["He got a coin.", "He left."], "He ran. He fell."],
}
COMMONGEN = {"concept_set": "dog#run", "scene": ["A dog runs.", "The dog is on the run."], "reason": ["x"]}


def write(tmp_path, text: str):
    path = tmp_path / "data.json"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("text", [json.dumps(ANLG), json.dumps(ANLG, indent=4)])
def test_anlg_as_one_object(tmp_path, text):
    (item,) = read("abductive", write(tmp_path, text))
    assert item.id == item.example.key == "a-1"
    assert (item.example.left, item.example.right) == ("It rained.", "He was wet.")
    assert item.references == ("He had no coat.", "He went out.")


def test_anlg_as_json_lines(tmp_path):
    lines = [{"story_id": "s", **ANLG["a-1"]}, {"story_id": "s", **ANLG["a-1"]}]
    items = list(read("abductive", write(tmp_path, "\n".join(map(json.dumps, lines)))))
    assert [item.id for item in items] == ["s", "s (2)"]


def test_timetravel_takes_first_sentences_and_the_changed_premise(tmp_path):
    (item,) = read("counterfactual", write(tmp_path, json.dumps(TIMETRAVEL)))
    assert item.example.left == "Jon went to a store. He sold a hat."
    assert item.example.ending == "He got money."
    assert item.references == ("He got a coin.", "He ran.")


def test_commongen_and_plain_lists_of_words(tmp_path):
    text = json.dumps(COMMONGEN) + "\ndog, park, ball\n\nhand sink soap\n"
    items = list(read("lexical", write(tmp_path, text)))
    assert [item.example.words for item in items] == [("dog", "run"), ("dog", "park", "ball"), ("hand", "sink", "soap")]
    assert items[0].id == "dog#run"
    assert items[0].references == ("A dog runs.", "The dog is on the run.")


def test_a_line_of_words_may_say_what_the_command_line_says(tmp_path):
    line = {"words": ["dog", "run"], "avoid": "cat", "inflections": True, "ordered": True}
    (item,) = read("lexical", write(tmp_path, json.dumps(line)))
    assert (item.example.avoid, item.example.ordered) == (("cat",), True)
    assert "ran" in item.example.words[1].split("|")


@pytest.mark.parametrize("task", TASKS)
def test_the_package_has_a_few_examples_of_every_task(task):
    items = list(read(task, sample_file(task)))
    assert len(items) == 12
    assert all(isinstance(item, Item) and item.references for item in items)


BAD = {
    "{": "not valid JSON",
    "[1, 2]": "not a JSON object",
    "17": "not a JSON object",
    '{"right": "b"}': "'left or obs1' is missing",
    '{"left": "", "right": "He ran."}': "the left text is empty",
    '{"left": 3, "right": "He ran."}': "the field 'left' is not a text",
}


@pytest.mark.parametrize(("line", "reason"), BAD.items())
def test_a_broken_line_is_named_and_the_rest_is_read(tmp_path, line, reason):
    good = '{"left": "It rained.", "right": "He was wet."}'
    first, broken, last = read("abductive", write(tmp_path, f"{good}\n{line}\n{good}\n"))
    assert isinstance(broken, Broken)
    assert broken.line == 2
    assert reason in broken.reason
    assert (first.id, last.id) == ("line 1", "line 3")


def test_ten_thousand_lines_with_one_in_a_hundred_broken(tmp_path):
    lines = ["{oops" if n % 100 == 7 else f'{{"id": "{n}", "words": ["dog", "park"]}}' for n in range(10_000)]
    found = list(read("lexical", write(tmp_path, "\n".join(lines))))
    broken = [entry for entry in found if isinstance(entry, Broken)]
    assert len(found) == 10_000
    assert [entry.line for entry in broken] == [n + 1 for n in range(10_000) if n % 100 == 7]


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=80))
def test_no_line_of_text_breaks_the_reader(tmp_path_factory, line):
    path = tmp_path_factory.mktemp("any") / "data.jsonl"
    path.write_text(line + "\n", encoding="utf-8", newline="")
    for task in TASKS:
        for entry in read(task, path):
            assert isinstance(entry, Item | Broken)


def test_an_unreadable_file_is_one_clear_line(tmp_path):
    with pytest.raises(ColdError, match="cannot be read"):
        list(read("lexical", tmp_path / "nothing.jsonl"))
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9 dog\n")
    with pytest.raises(ColdError, match="UTF-8"):
        list(read("lexical", tmp_path / "latin.txt"))


def test_the_splits_are_a_quarter_and_the_rest_whatever_the_order():
    keys = [f"id-{n}" for n in range(4000)]
    share = sum(map(tuned_on, keys)) / len(keys)
    assert 0.22 < share < 0.28
    item = Item("id-0", None, ())
    assert in_split(item, "tune") != in_split(item, "report")
    assert in_split(item, "all")
    with pytest.raises(ColdError, match="there is no split 'test'"):
        in_split(item, "test")


def test_a_spread_choice_comes_from_all_over_a_sorted_file_and_keeps_its_order():
    items = [Item(f"id {n}", examples.lexical([f"word{n}"]), ()) for n in range(400)]
    some = spread(items, 40)
    places = [items.index(item) for item in some]
    assert places == sorted(places)
    assert min(places) < 40 < 360 < max(places)
    assert {item.id for item in spread(items, 10)} <= {item.id for item in some}  # fewer are some of the same
    assert spread(items[:3], 10) == items[:3]
