"""Fewer samples of a run are ranked as a run of so many would have ranked them."""

import json

import pytest

from benchmarks.compute import main, whole

TEXTS = ["A cat sat.", "The dog ran home.", "The dog ran away.", "The dog ran home again."]


def write(path, select, method="cold"):
    head = {"method": method, "preset": "fast", "configuration": {"select": select}}
    samples = [
        {"text": text, "selection": {"judged": energy}} for text, energy in zip(TEXTS, [0.5, 1, 0.9, 2], strict=True)
    ]
    line = {
        "inputs": {"words": ["dog"]},
        "references": ["The dog ran home."],
        "order": [1, 2, 0, 3],
        "samples": samples,
    }
    path.write_text("\n".join(json.dumps(entry) for entry in (head, {**line, "seconds": 4.0})))


def test_the_first_samples_are_ranked_anew(tmp_path, capsys):
    write(tmp_path / "order.jsonl", {"rule": "lexical"})
    write(tmp_path / "agree.jsonl", {"rule": "energy", "agreement": 2.0, "careful": True})
    write(tmp_path / "beam.jsonl", {"rule": "lexical"}, "neurologic")
    order, agree, beam = main(
        [str(tmp_path / f"{n}.jsonl") for n in ("order", "agree", "beam")] + ["--out", str(tmp_path / "p.png")]
    )
    assert [(p.samples, p.seconds) for p in order] == [(1, 1.0), (2, 2.0), (4, 4.0)]
    assert [p.quality for p in order] == pytest.approx([0, 100, 100])  # the cat; then the first of the ranking
    assert agree[1].quality == 100  # the cat has the lower energy, but not the word
    assert [p.samples for p in beam] == [4]
    assert [p.whole for p in order] == [0, 100, 100]
    assert (tmp_path / "p.png").stat().st_size > 1000
    assert "neurologic" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "sound"),
    [
        ("The dog ran.", True),
        ("The dog", False),
        ("A cat sat.", False),
        ("The dog ran. It fell.", False),
        ("The dog sat, He ran.", False),
    ],
)
def test_whole_is_one_sound_sentence_with_all_words(text, sound):
    assert whole(text, ["dog"]) == sound
