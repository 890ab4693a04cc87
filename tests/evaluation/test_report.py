"""The report of a run: one file, safe with any text, and clear about what it cannot read."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from cold.errors import ColdError
from cold.evaluation.report import write_report

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!-- <script> -->",
    "\"quotes\" & 'quotes' &amp; &lt;",
    "line\u2028paragraph\u2029end\x00\x7f",
    "{{data}} {{title}} \\1 \\u003c",
    "犬 🐕 e\u0301 \u202e right to left",
    "a lone \ud800 surrogate",
]
TEMPLATE = (resources.files("cold") / "evaluation" / "report.html").read_text(encoding="utf-8")


class Scripts(HTMLParser):
    """The attributes and the text of every script element, and the title."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.title = ""
        self.inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = tag
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside == "script":
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)
        elif self.inside == "title":
            self.title += data


def header(**changes: Any) -> dict[str, Any]:
    model = {"name": "smollm2", "hash": "abc"}
    return {"kind": "header", "schema_version": 1, "task": "lexical", "method": "cold", "model": model} | changes


def example(text: str = "A dog runs.", words: tuple[str, ...] = (), **changes: Any) -> dict[str, Any]:
    samples = [{"text": "Not this.", "energy": 9.0}, {"text": text, "energy": 2.0, "terms": {}, "selection": {}}]
    found = {"id": "one", "inputs": {"words": list(words)}, "samples": samples, "order": [1, 0], "selected": 1}
    return {"kind": "example"} | found | changes


def save(path: Path, *records: dict[str, Any], tail: str = "") -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records) + tail, encoding="utf-8")
    return path


def parse(page: Path) -> Scripts:
    parser = Scripts()
    parser.feed(page.read_text(encoding="utf-8"))
    parser.close()
    return parser


def embedded(page: Path) -> Any:
    return json.loads(parse(page).scripts[0][1])


def report(tmp_path: Path, *records: dict[str, Any], metrics: Any = None) -> Any:
    page = tmp_path / "report.html"
    assert write_report(save(tmp_path / "run.jsonl", *records), page, metrics) == len(records) - 1
    return embedded(page)


@pytest.mark.parametrize("text", HOSTILE)
def test_any_text_comes_back_unchanged_and_closes_nothing(tmp_path: Path, text: str) -> None:
    records = [
        header(task=text, configuration={text: [text]}),
        example(text, words=(text,), id=text, references=[text]),
    ]
    data = report(tmp_path, *records, metrics={text: text})
    assert [data["header"], *data["examples"]] == records
    assert data["metrics"] == {text: text}
    page = parse(tmp_path / "report.html")
    assert [attributes for attributes, _ in page.scripts] == [{"type": "application/json", "id": "data"}, {}]
    assert page.scripts[1][1] in TEMPLATE
    readable = text.encode("utf-8", "replace").decode().replace("\x00", "")
    assert page.title.replace("\x00", "").replace("\ufffd", "?") == f"cold: {readable}, cold"


def test_the_page_loads_nothing_and_writes_no_markup_from_texts() -> None:
    assert not re.search(r"https?:|src=|<link|@import|url\(|fetch\(|XMLHttpRequest|WebSocket|import\(", TEMPLATE)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function", TEMPLATE)
    assert "default-src 'none'" in TEMPLATE
    assert sorted(re.findall(r"\{\{(\w+)\}\}", TEMPLATE)) == ["data", "title"]


@pytest.mark.parametrize("tail", ['{"kind": "exam', '{"kind": "example", "id": "é', "{", "\n\n"])
def test_a_torn_last_line_is_left_out(tmp_path: Path, tail: str) -> None:
    run = save(tmp_path / "run.jsonl", header(), example())
    run.write_bytes(run.read_bytes() + tail.encode()[: -1 if tail.endswith("é") else None])  # inside a character, too
    assert write_report(run, tmp_path / "deep" / "report.html") == 1
    assert len(embedded(tmp_path / "deep" / "report.html")["examples"]) == 1


def test_a_run_without_examples_gets_a_page(tmp_path: Path) -> None:
    assert report(tmp_path, header())["metrics"] == {"examples": 0}


@pytest.mark.parametrize(
    "content", ["", "\n", "hello\n", "[]\n", '{"kind": "example"}\n', '{"kind": "header"}\n', "\x89PNG"]
)
def test_what_is_no_run_file_is_refused_in_one_line(tmp_path: Path, content: str) -> None:
    run = tmp_path / "other.jsonl"
    run.write_bytes(content.encode("latin-1"))
    with pytest.raises(ColdError, match="is no run file") as caught:
        write_report(run, tmp_path / "report.html")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "report.html").exists()


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ColdError, match="cannot read the run file"):
        write_report(tmp_path / "none.jsonl", tmp_path / "report.html")


def test_another_schema_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ColdError, match="schema version 2"):
        report(tmp_path, header(schema_version=2), example())


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"kind": "header"}, "kind 'header'"),
        ({"samples": []}, "selects sample 1 of 0"),
        ({"samples": [{"energy": 1}]}, "no samples with texts"),
        ({"selected": None}, "selects sample None of 2"),
        ({"inputs": ["a"]}, "inputs that are no table"),
    ],
)
def test_a_damaged_example_is_named_by_its_line(tmp_path: Path, changes: dict[str, Any], fault: str) -> None:
    with pytest.raises(ColdError, match=f"line 3 of .* {fault}"):
        report(tmp_path, header(), example(), example(**changes), example())


def test_a_torn_line_in_the_middle_is_named(tmp_path: Path) -> None:
    run = save(tmp_path / "run.jsonl", header(), tail='{"kind": "exam\n' + json.dumps(example()) + "\n")
    with pytest.raises(ColdError, match=r"line 2 of .* is no JSON object"):
        write_report(run, tmp_path / "report.html")


def test_given_metrics_are_shown_instead_of_our_own(tmp_path: Path) -> None:
    metrics = {"coverage": [0.9, 0.8, 1.0], "perplexity": 80.5, "rated by": "nobody", "bertscore": float("nan")}
    assert report(tmp_path, header(), example(), metrics=metrics)["metrics"] == metrics | {"bertscore": None}


def test_without_metrics_the_file_tells_what_it_can(tmp_path: Path) -> None:
    second = example(
        "Cats sleep all day long.", words=("cats", "day"), samples=[{"text": "Cats sleep.", "energy": None}]
    )
    data = report(tmp_path, header(), example("A DOG-house; a dog.", words=("dog",)), second | {"selected": 0})
    assert data["rows"] == [{"length": 4, "coverage": 1.0}, {"length": 2, "coverage": 0.5}]
    assert data["metrics"] == {
        "examples": 2,
        "mean energy of the selected": 2.0,
        "mean length in words": 3.0,
        "share with all required words": 0.5,
    }


def test_runs_without_words_have_no_share_of_them(tmp_path: Path) -> None:
    data = report(tmp_path, header(), example())
    assert data["rows"] == [{"length": 3, "coverage": None}]
    assert "share with all required words" not in data["metrics"]


def test_numbers_are_short_and_never_infinite(tmp_path: Path) -> None:
    run = save(tmp_path / "run.jsonl", header(), tail=json.dumps(example(seconds=1.23456789)) + "\n")
    run.write_text(run.read_text().replace("2.0", "NaN").replace("9.0", "1e999"))
    write_report(run, tmp_path / "report.html")
    found = embedded(tmp_path / "report.html")["examples"][0]
    assert found["seconds"] == 1.23457
    assert [sample["energy"] for sample in found["samples"]] == [None, None]
