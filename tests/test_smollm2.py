"""The whole on a real language model: short runs of the default presets, and texts one could show."""

import json
import time

import pytest

import cold
from cold import cli
from cold.lm import catalog
from cold.text import sentences
from cold.text.words import met

pytestmark = pytest.mark.lm


def readable(text):
    clean = text == sentences.clean(text) and text.isprintable() and "<|" not in text
    return clean and sentences.is_complete(text) and not sentences.has_loop(text)


def test_a_sentence_with_given_words_has_them_all(smollm2):
    words = ["dog", "park", "ball"]
    found = cold.lexical(words, smollm2, samples=2, steps=10)
    assert met(found.text, words) == words
    assert readable(found.text)
    assert len(found.samples) == 2


def test_a_bridge_is_one_readable_sentence(smollm2):
    found = cold.abductive("Arnold was scared of cats.", "Arnold dumped his girlfriend.", smollm2, samples=2, steps=10)
    assert readable(found.text)
    assert len(sentences.split(found.text)) == 1
    assert set(found.best.terms) == {"fluency", "future", "keywords"}


def test_the_energy_pulls_the_right_text_closer(smollm2):
    """Fifteen steps on the future term alone make the right text likelier than the start did."""
    story = cold.Context(smollm2, "Arnold was scared of cats.", "Arnold dumped his girlfriend.")
    energy = 1.0 * cold.Future(story, reduction=cold.mean)
    scores = [float(info.scores.mean()) for info in cold.sample(energy, length=8, samples=1, steps=15).trace]
    assert scores[-1] > scores[0] + 0.5


def test_a_new_ending_keeps_words_of_the_old_one(smollm2):
    context = "Jon decided to go to the pawn store. He sold some antiques he had found."
    found = cold.counterfactual(context, "He bought it for three thousand dollars.", smollm2, samples=2, steps=10)
    assert readable(found.text)
    assert len(met(found.text, ["he", "bought", "it", "for", "thousand", "dollars"])) >= 2


def test_the_papers_four_terms_read_smollm2_and_its_partner(smollm2):
    found = cold.abductive("Tom was late.", "He lost his job.", smollm2, name="paper", samples=2, steps=3)
    weights = {name: term.weight for name, term in found.best.terms.items()}
    assert weights == {"fluency": 0.3, "fluency_reverse": 0.2, "future": 0.48, "similarity": 0.02}


def test_models_lists_smollm2_as_present_and_get_says_it_is_here(capsys):
    assert cli.run(["models"]) == 0
    assert str(catalog.find("smollm2")) in capsys.readouterr().out
    start = time.monotonic()
    assert cli.run(["models", "get", "smollm2"]) == 0
    assert time.monotonic() - start < 5


def test_the_command_line_writes_json_with_the_models_hash(capsys):
    assert cli.run(["lexical", "dog", "--steps", "2", "--samples", "1", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["model"]["hash"] == catalog.KNOWN["smollm2"].sha256[:12]
    assert report["model"]["parameters"] == 134_515_008
