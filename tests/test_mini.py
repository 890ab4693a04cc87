"""The bundled pair at work: a real language model in each direction, quick enough for many short runs."""

import pytest
import torch

import cold
from cold.sampling.noise import Noise
from cold.soft import SoftSequence
from cold.text import sentences
from cold.text.words import met


@pytest.fixture(scope="module")
def mini():
    return cold.load("mini", device="cpu")


@pytest.fixture(scope="module")
def back():
    return cold.load("mini-reverse", device="cpu")


def score(constraint, lm, text):
    """f of a text that continues something."""
    y = SoftSequence.of_ids([lm.encode(" " + text)], lm.vocab, lm.device).logits
    bound = (1.0 * constraint).bind(1, y.shape[1])
    with torch.no_grad():
        return float(bound(y, bound.start(y), Noise([0], -1, y.device)).scores[0, 0])


@pytest.mark.parametrize("words", [["dog", "park", "ball"], ["cup", "table"], ["bus", "school", "late"]])
def test_given_words_stand_in_a_whole_sentence(mini, words):
    found = cold.lexical(words, mini, samples=2, steps=10)
    assert met(found.text, words) == words
    assert sentences.is_complete(found.text)


@pytest.mark.parametrize("preset", ["released", "paper"])
@pytest.mark.parametrize("task", ["lexical", "abductive", "counterfactual"])
def test_the_faithful_presets_read_in_both_directions(mini, back, task, preset):
    texts = {
        "lexical": (["dog"],),
        "abductive": ("Tom was late.", "He lost his job."),
        "counterfactual": ("Tom got up early.", "He lost his job."),
    }[task]
    found = getattr(cold, task)(*texts, mini, name=preset, samples=1, steps=3, reverse=back)
    assert found.text
    assert found.best.terms["fluency_reverse"].weight > 0


def test_the_faithful_presets_run_without_a_reverse_model_and_say_so(mini):
    with pytest.warns(UserWarning, match="left out"):
        found = cold.abductive(
            "Tom was late.", "He lost his job.", mini, name="paper", samples=1, steps=2, reverse="none"
        )
    assert "fluency_reverse" not in found.best.terms


@pytest.mark.parametrize(
    ("right", "fits", "strange"),
    [
        ("She thanked the nurse.", "The nurse gave her a pill.", "The horse gave him a song."),
        ("The cake was burned.", "She put the cake in the oven.", "The police put a man in the car."),
        ("He had to walk home.", "He missed the last bus.", "It sang the yellow box."),
    ],
)
def test_from_the_right_a_sentence_that_fits_is_likelier(back, right, fits, strange):
    """Fluency(back) reads y from its end, after the text on its right."""
    fluency = cold.Fluency(cold.Context(back, right=right), reduction=cold.mean)
    assert score(fluency, back, fits) > score(fluency, back, strange) + 0.3


@pytest.mark.parametrize("detach", [True, False])
def test_steps_on_the_reverse_term_alone_raise_it(mini, back, detach):
    story = cold.Context(mini, "Tom was late.", "He lost his job.")
    term = cold.Fluency(cold.Context(back, right="He lost his job."), name="back", reduction=cold.mean, detach=detach)
    energy = 1e-6 * cold.Fluency(story, reduction=cold.mean) + 1.0 * term
    scores = [float(info.scores[1].mean()) for info in cold.sample(energy, length=6, samples=1, steps=25).trace]
    assert scores[-1] > scores[0] + 0.5
