"""Readers of the public files as they are: aNLG, TimeTravel, CommonGen, and a simple JSONL of our own."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from cold.errors import ColdError
from cold.tasks import examples
from cold.text import sentences
from cold.text.problems import Example

TASKS = ("abductive", "counterfactual", "lexical")


class Item(NamedTuple):
    id: str
    example: Example
    references: tuple[str, ...]


class Broken(NamedTuple):
    """An entry that could not be read; the others are."""

    line: int
    reason: str


def read(task: str, path: Path) -> Iterator[Item | Broken]:
    """The entries of a file one by one, ids made unique, each example seeded by its id.

    JSON lines of any known form, one JSON object with an entry per id (aNLG), or plain lines of words (lexical).
    """
    if task not in MAKERS:
        raise ColdError(f"there is no task {task!r}: use {', '.join(TASKS)}")
    seen: Counter[str] = Counter()
    for line, key, entry in _entries(path, plain=task == "lexical"):
        try:
            if isinstance(entry, Broken):
                yield entry
                continue
            example, references = MAKERS[task](entry)
            name = str(key or _first(entry, "id", "story_id", "concept_set") or f"line {line}")
            seen[name] += 1
            name = name if seen[name] == 1 else f"{name} ({seen[name]})"
            yield Item(name, replace(example, key=name), tuple(str(text).strip() for text in references))
        except (ColdError, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            reason = f"the field {error} is missing" if isinstance(error, KeyError) else str(error)
            yield Broken(line, " ".join(reason.split()))


def sample_file(task: str) -> Path:
    """A few examples of our own that come with the package."""
    return Path(str(resources.files("cold") / "samples" / f"{task}.jsonl"))


def tuned_on(key: str) -> bool:
    """A quarter of every file may be tuned on; what is reported comes from the rest. Decided by a hash of the id."""
    return _hash(key) % 4 == 0


def spread(items: Sequence[Item], count: int) -> list[Item]:
    """So many of them from all over a file, which may be sorted: those with the least hashes, in the file's order."""
    least = sorted(range(len(items)), key=lambda n: _hash(items[n].id) // 4)[:count]  # the rest mod 4 is the split
    return [items[n] for n in sorted(least)]


def _hash(key: str) -> int:
    return int(hashlib.sha256(key.encode()).hexdigest(), 16)


def in_split(item: Item, split: str) -> bool:
    if split not in ("tune", "report", "all"):
        raise ColdError(f"there is no split {split!r}: use tune (a quarter), report (the rest) or all")
    return split == "all" or tuned_on(item.id) == (split == "tune")


def _entries(path: Path, plain: bool) -> Iterator[tuple[int, str, Any]]:
    """Line number, id where the file gives one, and the entry."""
    try:
        with path.open(encoding="utf-8") as file:
            whole = _one_object(file)
            if whole is not None:
                yield from ((number, key, entry) for number, (key, entry) in enumerate(whole.items(), 1))
                return
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, "", _entry(line, number, plain)
    except (OSError, UnicodeDecodeError) as error:
        raise ColdError(f"{path} cannot be read ({error}): check the path; it must be a text file in UTF-8") from error


def _one_object(file: Any) -> dict[str, Any] | None:
    """A file that is one object with an entry per id; the file is rewound if it is not."""
    first = file.readline().strip()
    if first in ("{", "") or (first.startswith("{") and _is_map(first)):
        file.seek(0)
        try:
            whole = json.load(file)
            if isinstance(whole, dict) and all(isinstance(entry, dict) for entry in whole.values()):
                return whole
        except json.JSONDecodeError:
            pass
    file.seek(0)
    return None


def _is_map(line: str) -> bool:
    try:
        whole = json.loads(line)
    except json.JSONDecodeError:
        return False
    return bool(whole) and all(isinstance(entry, dict) for entry in whole.values())


def _entry(line: str, number: int, plain: bool) -> Any:
    if plain and not line.lstrip().startswith("{"):
        return {"words": line.replace(",", " ").replace("#", " ").split()}
    try:
        entry = json.loads(line)
    except json.JSONDecodeError as error:
        return Broken(number, f"not valid JSON ({error.msg} at column {error.colno})")
    return entry if isinstance(entry, dict) else Broken(number, "not a JSON object")


def _abductive(entry: dict[str, Any]) -> tuple[Example, list[str]]:
    example = examples.abductive(_take(entry, "left", "obs1"), _take(entry, "right", "obs2"))
    return example, _list(_first(entry, "references", "gold_labels", "hyp"))


def _counterfactual(entry: dict[str, Any]) -> tuple[Example, list[str]]:
    """TimeTravel: of the original ending and of each edited one the first sentence, as in the paper."""
    if "context" in entry:
        context, ending = _take(entry, "context"), _take(entry, "ending")
        return examples.counterfactual(context, ending), _list(_first(entry, "references"))
    context = f"{_take(entry, 'premise').strip()} {_take(entry, 'counterfactual').strip()}"
    edited = [text[0] if isinstance(text, list) else sentences.first(text) for text in _list(entry["edited_endings"])]
    return examples.counterfactual(context, sentences.first(_take(entry, "original_ending"))), edited


def _lexical(entry: dict[str, Any]) -> tuple[Example, list[str]]:
    words = entry["words"] if "words" in entry else _take(entry, "concept_set").split("#")
    if isinstance(words, str):
        words = words.split()
    avoid = [str(word) for word in _list(entry.get("avoid"))]
    flags = {name: bool(entry.get(name)) for name in ("inflections", "ordered")}
    return examples.lexical([str(word) for word in words], avoid, **flags), _list(_first(entry, "references", "scene"))


MAKERS: dict[str, Callable[[dict[str, Any]], tuple[Example, list[str]]]] = {
    "abductive": _abductive,
    "counterfactual": _counterfactual,
    "lexical": _lexical,
}


def _take(entry: dict[str, Any], *names: str) -> str:
    for name in names:
        if name in entry:
            text = entry[name]
            if not isinstance(text, str):
                raise ValueError(f"the field {name!r} is not a text")
            return text
    raise KeyError(" or ".join(names))


def _first(entry: dict[str, Any], *names: str) -> Any:
    return next((entry[name] for name in names if entry.get(name)), None)


def _list(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]
