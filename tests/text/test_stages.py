"""From a left text to logits, from logits to tokens, from tokens to whole sentences, and which of them is taken."""

import math
import os
import random
import re
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cold.constraints import Fluency
from cold.errors import ColdError
from cold.lm import Context, LanguageModel
from cold.sampling.noise import row_seed
from cold.text import select, sentences
from cold.text.beam import Beam
from cold.text.complete import GreedyCompletion, ReleasedCompletion, repeats
from cold.text.discretize import Argmax, TopK
from cold.text.initialize import FromText, Greedy, RandomLogits, Sampled, SoftUnroll
from cold.text.problems import Example, Problems
from cold.text.words import met, word_ids, words_of
from small import Bigram, scripted, small_problems
from tiny import SENTENCES, VOCAB, WINDOW, tiny_lm

SEEDS = [row_seed(0, i) for i in range(4)]


def job(lm: LanguageModel, left="The dog ran.", length: int = 5, **parts) -> Problems:
    story = Context(lm, left=left)
    empty = Problems(story, 1.0 * Fluency(story), length, (Example(),) * story.examples)
    return replace(empty, **parts)


# -- the start ---------------------------------------------------------------------------------------------


def test_the_greedy_start_is_the_logits_along_the_greedy_continuation():
    lm = tiny_lm()
    problems = job(lm)
    written = lm.model.generate(
        torch.tensor(problems.story.left_ids),
        max_new_tokens=5,
        do_sample=False,
        suppress_tokens=[lm.separator],
        pad_token_id=lm.separator,
        output_logits=True,
        return_dict_in_generate=True,
    )
    y = Greedy()(problems, [0])
    assert y.argmax(-1).tolist() == written.sequences[:, -5:].tolist()
    assert torch.allclose(y[..., ~lm.banned], torch.stack(written.logits, 1)[..., ~lm.banned], atol=1e-4)


def test_greedy_starts_are_the_same_for_all_samples_and_differ_between_examples():
    y = Greedy()(small_problems(tiny_lm()), range(4))
    assert torch.equal(y[0], y[1])
    assert torch.equal(y[2], y[3])
    assert not torch.allclose(y[0], y[2], atol=0.1)


def test_soft_unrolling_feeds_back_the_expected_embedding():
    lm = tiny_lm()
    story = Context(lm, left="The dog ran.")
    before = torch.tensor(story.left_ids)
    y = SoftUnroll().logits(story, 3)
    for t in range(3):
        fed = torch.cat([lm.embed(before), lm.embed_soft(y[:, :t].softmax(-1))], 1)
        logits = lm.model(inputs_embeds=fed).logits[:, -1]
        assert torch.allclose(y[:, t, ~lm.banned], logits[:, ~lm.banned], atol=1e-4), t
    assert torch.allclose(SoftUnroll(temperature=0.5).logits(story, 3), 2 * y)


def test_sampled_starts_differ_between_samples_and_stay_when_more_are_asked_for():
    problems = job(tiny_lm())
    few, many = Sampled()(problems, SEEDS[:2]), Sampled()(problems, SEEDS)
    assert torch.allclose(many[:2], few, atol=1e-5)
    drawn = many.argmax(-1).tolist()
    assert len({tuple(row) for row in drawn}) == 4


def test_the_drawn_token_stands_the_lift_above_all_others():
    first, second = Sampled(lift=2.5)(job(tiny_lm()), SEEDS).topk(2).values.unbind(-1)
    assert (first - second > 2.5 - 1e-4).all()
    assert ((first - second - 2.5).abs() < 1e-4).any()


def test_sampling_without_temperature_is_greedy():
    problems = job(tiny_lm())
    cold = Sampled(temperature=1e-6)(problems, SEEDS[:1])
    assert cold.argmax(-1).tolist() == Greedy()(problems, SEEDS[:1]).argmax(-1).tolist()


def test_sampled_tokens_follow_the_distribution_of_the_model():
    table = torch.tensor([[0.1, 0.2, 0.7]]).log().repeat(3, 1)
    story = Context(LanguageModel(Bigram(table)), left=[0])
    problems = Problems(story, 1.0 * Fluency(story), 1, (Example(),))
    drawn = Sampled()(problems, range(3000)).argmax(-1).flatten()
    assert drawn.bincount() / 3000 == pytest.approx([0.1, 0.2, 0.7], abs=0.03)


def test_a_start_from_text_prefers_its_tokens_and_is_flat_behind_them():
    lm = tiny_lm()
    problems = small_problems(lm, length=6)
    y = FromText((" It fell. ", "The bird built a nest in the tall tree."), lift=4.0)(problems, range(4))
    fell, bird = (lm.encode_after(f" {text}") for text in ("It fell.", "The bird built a nest in the tall tree."))
    assert len(fell) < 6 < len(bird)
    assert y[1].argmax(-1).tolist()[: len(fell)] == fell
    assert y[3].argmax(-1).tolist() == bird[:6]
    assert y[0, len(fell) :].abs().max() == 0
    assert set(y.flatten().tolist()) == {0.0, 4.0}


def test_a_start_from_text_on_a_new_line_carries_no_space():
    lm = tiny_lm()
    ids = FromText(("The dog ran.",))(job(lm, left="A list:\n"), [0]).argmax(-1)[0].tolist()
    assert ids[:4] == lm.encode("The dog ran.")


def test_a_start_needs_one_text_for_each_example():
    with pytest.raises(ColdError, match="1 texts to start from for 2 examples"):
        FromText(("It fell.",))(small_problems(tiny_lm()), range(4))


def test_a_random_start_is_normal_noise_of_its_seed():
    problems = job(tiny_lm())
    y = RandomLogits(3.0)(problems, SEEDS)
    assert torch.equal(y[:2], RandomLogits(3.0)(problems, SEEDS[:2]))
    assert not torch.allclose(y[0], y[1], atol=1.0)
    assert float(y.std()) == pytest.approx(3.0, rel=0.05)
    assert float(y.mean()) == pytest.approx(0.0, abs=0.1)


# -- from soft to discrete ---------------------------------------------------------------------------------

#                          after token 0      after 1            after 2            after 3
TABLE = torch.tensor([[0.0, 3, 2, 1], [3.0, 0, 2, 1], [1.0, 2, 0, 3], [0.0, 1, 2, 3]])
LIKED = torch.tensor([[[0.0, 1, 2, 3], [0.0, 1, 2, 3], [3.0, 2, 1, 0]]])  # what the soft sequence would have


def guarded(k: int, widen=(), left=(0,)) -> list[list[int]]:
    story = Context(LanguageModel(Bigram(TABLE)), left=list(left))
    problems = Problems(story, 1.0 * Fluency(story), 3, (Example(),) * story.examples, widen=widen)
    return TopK(k)(problems, LIKED.expand(story.examples, -1, -1))


@pytest.mark.parametrize(
    ("k", "ids"),
    [
        (1, [1, 0, 1]),  # greedy, whatever the soft sequence says: 0 -> 1 -> 0 -> 1
        (2, [2, 3, 2]),  # of {1, 2} y likes 2; of {3, 1} likes 3; of {3, 2} likes 2
        (3, [3, 3, 1]),  # of {1, 2, 3} 3; of {3, 2, 1} 3; of {3, 2, 1} 1
        (4, [3, 3, 0]),
        (99, [3, 3, 0]),
    ],
)
def test_the_soft_sequence_chooses_among_the_k_best_of_the_model(k, ids):
    assert guarded(k) == [ids]


def test_one_candidate_is_greedy_and_all_candidates_are_the_argmax():
    problems = small_problems(tiny_lm())
    y = torch.randn(4, 6, VOCAB, generator=torch.Generator().manual_seed(0))
    assert TopK(1)(problems, y) == Greedy()(problems, range(4)).argmax(-1).tolist()
    assert TopK(VOCAB)(problems, y) == Argmax()(problems, y)
    assert Argmax()(problems, y) == y.masked_fill(problems.lm.banned, -99).argmax(-1).tolist()


def test_widen_lets_a_token_in_that_the_model_would_not_offer():
    assert guarded(1, widen=((3,),)) == [[3, 3, 3]]
    assert guarded(1, widen=((3,), ()), left=([0], [0])) == [[3, 3, 3], [1, 0, 1]]
    assert TopK(1, widen=False).k == 1
    story = Context(LanguageModel(Bigram(TABLE)), left=[0])
    problems = Problems(story, 1.0 * Fluency(story), 3, (Example(),), widen=((3,),))
    assert TopK(1, widen=False)(problems, LIKED) == [[1, 0, 1]]


def test_no_candidates_are_refused():
    with pytest.raises(ColdError, match="at least 1 token"):
        TopK(0)


# -- completion --------------------------------------------------------------------------------------------

CIRCLE = " dog saw her at home and dog"  # six tokens that follow each other for ever


def ids_of(lm: LanguageModel, *texts: str) -> list[list[int]]:
    return [lm.encode_after(f" {text}") for text in texts]


def test_completion_writes_on_to_the_end_of_the_sentence_and_no_further():
    lm = scripted(" She found an old letter. He went")
    assert GreedyCompletion()(job(lm), ids_of(lm, "She found")) == ["She found an old letter."]


def test_a_whole_sentence_is_left_as_it_is(monkeypatch):
    lm = scripted(" She found an old letter. He went")
    monkeypatch.setattr(LanguageModel, "states", None)
    assert GreedyCompletion()(job(lm), ids_of(lm, "She found.")) == ["She found."]


def test_completion_never_adds_a_word_that_is_to_be_avoided():
    lm = scripted(" The dog ran to the river.")
    start = [lm.encode_after(" The dog")]
    for avoid, text in (
        ((), "The dog ran to the river."),
        (("river",), "The dog"),
        (("rive",), "The dog ran to the river."),
    ):
        problems = job(lm, examples=(Example(avoid=avoid),))
        assert GreedyCompletion()(problems, start) == [text]


def test_only_the_sentence_of_the_last_token_is_completed():
    lm = scripted(" She found an old letter. He went")
    assert GreedyCompletion()(job(lm), ids_of(lm, "It fell. She found")) == ["It fell. She found an old letter."]


def test_rows_that_end_earlier_do_not_disturb_the_others():
    lm = scripted(" She found an old letter.", " dog ran.")
    rows = ids_of(lm, "A dog", "It fell.", "She found", "The dog")
    expected = ["A dog ran.", "It fell.", "She found an old letter.", "The dog ran."]
    assert GreedyCompletion()(job(lm), rows) == expected


def test_what_was_written_before_may_not_come_again():
    lm = scripted(CIRCLE)
    (start,) = ids_of(lm, "dog saw")
    (looping,) = GreedyCompletion(max_length=20)(job(lm), [start])
    assert sentences.has_loop(looping)
    for n in (2, 3):
        (free,) = GreedyCompletion(max_length=20, no_repeat=n)(job(lm), [start])
        tokens = lm.encode(" " + free)
        grams = [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]
        assert len(grams) == len(set(grams))
        assert free.startswith("dog saw her at home and dog" + (" saw" if n == 3 else ""))


@pytest.mark.parametrize("limit", [2, 3, 10, 17])
def test_completion_stops_at_its_greatest_length(limit):
    lm = scripted(CIRCLE)
    (text,) = GreedyCompletion(max_length=limit)(job(lm), ids_of(lm, "dog saw"))
    assert len(lm.encode(" " + text)) == limit


def test_completion_ends_with_a_whole_word():
    lm = scripted(" the garden was")
    assert len(word_ids(lm, "garden")) == 4
    for limit in (2, 3, 4, 5):
        (text,) = GreedyCompletion(max_length=limit)(job(lm), ids_of(lm, "the"))
        assert text == "the garden", limit


def test_a_line_that_the_model_opens_is_dropped():
    lm = scripted(" She found an old\nletter.")
    assert GreedyCompletion()(job(lm), ids_of(lm, "She found")) == ["She found an old"]
    assert GreedyCompletion()(job(lm), ids_of(lm, "She\nfound")) == ["She found an old"]


def test_greedy_completion_reads_the_left_text_and_the_released_one_does_not():
    lm = tiny_lm()
    problems, ids = small_problems(lm), ids_of(lm, "The dog", "The dog")
    first, second = ReleasedCompletion(12)(problems, ids)
    assert first == second
    first, second = GreedyCompletion(12)(problems, ids)
    assert first != second


def test_the_released_completion_keeps_whole_sentences_until_they_have_the_words():
    told = ["She found an old letter!", "It was late?", "The dog ran"]
    lm = scripted(f" {told[0]}\n{told[1]} {told[2]}")
    size = len(lm.encode(f" {told[0]}\n{told[1]} {told[2]}"))
    for length, kept in ((5, 1), (6, 2), (8, 2), (9, 3)):
        (text,) = ReleasedCompletion(max_length=size)(job(lm, length=length), ids_of(lm, "She found"))
        assert text == " ".join(told[:kept]), length


@pytest.mark.parametrize(
    ("ids", "n", "forbidden"),
    [
        ([], 2, []),
        ([1, 2, 1], 0, []),
        ([1, 2, 1], 1, [1, 2, 1]),
        ([1, 2, 1], 2, [2]),
        ([1, 2, 1, 3, 1], 2, [2, 3]),
        ([1, 2, 3, 1, 2], 3, [3]),
        ([1, 2, 3, 2], 3, []),
        ([7, 7, 7], 2, [7, 7]),
        ([1, 2], 3, []),
    ],
)
def test_repeats_are_the_tokens_that_would_say_something_again(ids, n, forbidden):
    assert repeats(ids, n) == forbidden


@given(st.lists(st.integers(0, 3), max_size=12), st.integers(1, 4), st.integers(0, 3))
def test_a_token_is_forbidden_exactly_when_it_makes_an_old_n_gram(ids, n, token):
    grams = {tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)}
    new = tuple([*ids, token][-n:])
    assert (token in repeats(ids, n)) == (len(new) == n and new in grams)


# -- selection ---------------------------------------------------------------------------------------------


def plain_perplexity(lm: LanguageModel, text: str) -> float:
    ids = torch.tensor([[lm.separator, *lm.encode(text)]])
    return math.exp(float(lm.model(input_ids=ids, labels=ids).loss))


def test_perplexity_is_per_token_from_the_separator_on_whatever_the_batch():
    lm = tiny_lm()
    texts = ["No.", SENTENCES[0], " ".join(SENTENCES[1:3])]
    together = select.perplexity(lm, texts)
    assert together == pytest.approx([plain_perplexity(lm, text) for text in texts], rel=1e-3)
    assert together == pytest.approx([select.perplexity(lm, [text])[0] for text in texts], rel=1e-3)
    assert select.perplexity(lm, [f"  {SENTENCES[0]}\n"]) == pytest.approx([together[1]], rel=1e-5)


def test_nothing_is_infinitely_perplexing_and_a_long_text_is_cut_at_the_window():
    lm = tiny_lm()
    assert select.perplexity(lm, ["", SENTENCES[0]])[0] == math.inf
    assert select.perplexity(lm, [""]) == [math.inf]
    long = " ".join(SENTENCES * 9)
    assert len(lm.encode(long)) > WINDOW
    assert math.isfinite(select.perplexity(lm, [long])[0])


@pytest.fixture
def perplexities(monkeypatch) -> dict[str, float]:
    """What the LM would say, by text."""
    known: dict[str, float] = {}
    monkeypatch.setattr(select, "perplexity", lambda lm, texts: [known[text] for text in texts])
    return known


def test_the_abductive_rule_takes_the_five_best_with_the_left_text_then_the_best_without(perplexities):
    joint = [6, 2, 5, 1, 4, 3, 7]
    behind = [1, 5, 2, 4, 3, 6, 0]  # the two that are not among the five would be the best here
    texts = [f"y{i}" for i in range(7)]
    perplexities.update({f"L {text} R": score for text, score in zip(texts, joint, strict=True)})
    perplexities.update({f"{text} R": score for text, score in zip(texts, behind, strict=True)})
    ranking = select.abductive(tiny_lm(), [Example(left="L", right="R")], texts, [0.0] * 7)[0]
    assert ranking.order == [2, 4, 3, 1, 5, 0, 6]
    assert ranking.scores[4] == {"perplexity_left_y_right": 4, "perplexity_y_right": 3}


def test_the_counterfactual_rule_reads_the_context_and_the_text(perplexities):
    perplexities.update({"L a": 3.0, "L b": 1.0, "L c": 2.0})
    ranking = select.counterfactual(tiny_lm(), [Example(left="L")], ["a", "b", "c"], [0.0] * 3)[0]
    assert ranking == ([1, 2, 0], [{"perplexity_left_y": 3.0}, {"perplexity_left_y": 1.0}, {"perplexity_left_y": 2.0}])


def test_the_lexical_rule_counts_words_before_it_reads(perplexities):
    texts = ["The dog sat.", "A dog saw a river.", "The river and the dog."]
    perplexities.update(zip(texts, [1.0, 3.0, 2.0], strict=True))
    ranking = select.lexical(tiny_lm(), [Example(words=("dog", "river"))], texts, [0.0] * 3)[0]
    assert ranking.order == [2, 1, 0]
    assert ranking.scores[1] == {"coverage": 1.0, "perplexity": 3.0}


def test_the_energy_rule_takes_the_lowest_energy_and_puts_last_what_has_none():
    energies = [math.nan, 0.5, -2.0, math.nan, 1.0]
    assert select.by_energy(tiny_lm(), [Example()], list("abcde"), energies)[0].order == [2, 1, 4, 0, 3]


def test_agreement_favours_what_most_samples_say():
    texts = ["She saw a dog.", "She saw a dog there.", "A dog bit.", "Completely other words."]
    ranking = select.weighed(1.0)(tiny_lm(), [Example()], texts, [0.0, 0.0, 0.0, -0.6])[0]
    first = [8 / 9, 4 / 7, 0.0]  # 2 c / (n + m): four of 4 + 5 words, two of 4 + 3, none
    assert ranking.scores[0] == {"judged": 0.0, "agreement": pytest.approx(sum(first) / 3)}
    assert ranking.order == [3, 0, 1, 2]  # -0.6, -0.487, -0.463, -0.357
    assert select.weighed(2.0)(tiny_lm(), [Example()], texts, [0.0, 0.0, 0.0, -0.6])[0].order == [0, 1, 2, 3]
    assert select.weighed(2.0)(tiny_lm(), [Example()], ["A dog."], [0.5])[0].scores == [{"judged": 0.5, "agreement": 0}]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("He sat down, He was tired.", True),
        ("He walks alone He loves it.", True),
        ('He said, "The dog ran."', False),
        ("The dog saw Anna and I ran.", False),
    ],
)
def test_two_sentences_in_one_are_seen(text, found):
    assert sentences.runs_on(text) == found


def test_the_perplexity_of_a_text_alone_may_count_too(perplexities):
    perplexities.update({"a": 1.0, "b": math.e, "c": math.e**3})
    ranking = select.weighed(perplexity_alone=0.5)(tiny_lm(), [Example()], ["a", "b", "c"], [1.0, 0.0, 0.0])[0]
    assert ranking.order == [1, 0, 2]  # 1 + 0, 0 + 0.5, 0 + 1.5
    assert ranking.scores[1] == {"judged": 0.0, "perplexity": math.e}


@pytest.mark.parametrize(
    "rule",
    [
        select.abductive,
        select.counterfactual,
        select.lexical,
        select.by_energy,
        select.careful(select.weighed(1.0, 0.5)),
    ],
)
def test_a_batch_is_ranked_as_its_examples_are_alone(rule):
    told = [Example(left="The dog ran.", right="It fell.", words=("dog",)), Example(left="A cat sat.", words=("mat",))]
    texts = ["A dog ran home.", "The man saw it.", "A cat sat on the mat.", "The door was red."]
    energies = [0.3, 0.1, 0.2, 0.4]
    both = rule(tiny_lm(), told, texts, energies)
    for number, example in enumerate(told):
        rows = slice(2 * number, 2 * number + 2)
        (alone,) = rule(tiny_lm(), [example], texts[rows], energies[rows])
        assert both[number].order == alone.order
        for seen, wanted in zip(both[number].scores, alone.scores, strict=True):
            assert seen == pytest.approx(wanted, rel=1e-4)


LOOP = "The dog ran to the dog ran to."
CASES = ["The dog ran home.", "A dog ran", "The cat ran home.", "Dog.", LOOP]


@pytest.mark.parametrize("place", range(5))
def test_with_care_a_looping_text_never_wins_and_words_come_before_endings(place):
    texts = [*CASES[:4][:place], LOOP, *CASES[:4][place:]]
    energies = [float(texts.index(text) if text != LOOP else -100) for text in texts]
    ranking = select.careful(select.by_energy)(tiny_lm(), [Example(words=("dog",))], texts, energies)[0]
    assert [texts[i] for i in ranking.order] == [CASES[0], *sorted(CASES[1:4:2], key=texts.index), CASES[2], LOOP]
    marks = ranking.scores[texts.index("A dog ran")]
    assert (marks["words_missing"], marks["loop"], marks["unfinished"]) == (0.0, 0.0, 1.0)
    assert marks["judged"] == energies[texts.index("A dog ran")]


@given(st.lists(st.sampled_from(CASES), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_with_care_the_winner_loops_only_if_all_do(texts, random):
    energies = [random.random() for _ in texts]
    ranking = select.careful(select.by_energy)(tiny_lm(), [Example(words=("dog",))], texts, energies)[0]
    assert sorted(ranking.order) == list(range(len(texts)))
    assert sentences.has_loop(texts[ranking.order[0]]) == all(sentences.has_loop(text) for text in texts)


def test_without_care_the_rule_alone_decides():
    assert select.by_energy(tiny_lm(), [Example(words=("dog",))], [LOOP, CASES[0]], [0.0, 1.0])[0].order == [0, 1]


# -- the beam ----------------------------------------------------------------------------------------------


def requiring(lm: LanguageModel, *words: tuple[str, ...], length: int = 8) -> Problems:
    """Examples that open a line, each with its words."""
    lefts = [f"{left}\n" for left in ("The dog ran.", "It was a cold night and the wind was strong.", "No.")]
    examples = tuple(Example(words=row, keywords=row) for row in words)
    return job(lm, left=lefts[: len(words)], length=length, examples=examples)


def noise(rows: int, length: int = 8, scale: float = 1.0) -> torch.Tensor:
    return scale * torch.randn(rows, length, VOCAB, generator=torch.Generator().manual_seed(0))


STORY = "\nShe went to the river. The dog and the woman were at home in the city."


def test_the_beam_writes_printable_sentences_that_end(monkeypatch):
    lm, plain = scripted(STORY), LanguageModel.logits
    odd = torch.tensor([not string.isprintable() for string in lm.token_strings])
    assert odd.sum() > 10
    monkeypatch.setattr(LanguageModel, "logits", lambda self, states: plain(self, states) + 30.0 * odd)
    rows = Beam(top=60)(requiring(lm, (), ("dog",)), noise(4))
    for row in rows:
        text = lm.decode(row)
        assert text.isprintable()
        assert sentences.is_complete(text), text
        assert text[0].isupper()
        assert len(words_of(text)) > 2
        assert len(sentences.split(text)) == 1


@pytest.mark.parametrize("wanted", [("dog", "river", "house"), ("house", "river", "dog"), ("river", "house", "dog")])
def test_the_beam_writes_ordered_words_in_their_order(wanted):
    lm = tiny_lm()
    problems = requiring(lm, wanted)
    ordered = replace(problems, examples=(replace(problems.examples[0], ordered=True),))
    for row in Beam()(ordered, noise(2)):
        assert ordered.examples[0].found(lm.decode(row)) == list(wanted)
    marks = select.careful(select.by_energy)(
        lm, ordered.examples, [" ".join(wanted), " ".join(wanted[::-1])], [0.0, 0.0]
    )
    assert [seen["words_missing"] for seen in marks[0].scores] == [0.0, 2.0]


def test_a_beam_as_wide_as_the_space_finds_all_required_words():
    tokens = [tiny_lm().encode(text)[0] for text in ("\n", "The", " dog", " river", " ran", " was", ".")]
    table = torch.full((VOCAB, VOCAB), -30.0)
    likely = torch.randn(7, 7, generator=torch.Generator().manual_seed(0))
    table[torch.tensor(tokens)[:, None], torch.tensor(tokens)] = likely
    lm = LanguageModel(Bigram(table), tiny_lm().tokenizer)
    wanted = [("dog",), ("river", "ran"), ("ran", "dog", "river")]
    rows = Beam(width=10_000, top=6, trust=0.0, max_length=5, no_repeat=0)(requiring(lm, *wanted), noise(3))
    for row, words in zip(rows, wanted, strict=True):
        assert met(lm.decode(row), words) == list(words)
        assert sentences.is_complete(lm.decode(row))


def test_the_beam_writes_a_required_word_of_several_tokens_as_a_whole():
    lm = scripted(STORY, " the garden and")
    assert len(word_ids(lm, "garden")) == 4
    rows = Beam()(requiring(lm, ("garden",), ("garden", "dog")), noise(4))
    assert [met(lm.decode(row), ["garden"]) for row in rows] == [["garden"]] * 4


def test_the_beam_writes_a_required_word_of_several_tokens_that_the_model_does_not_expect():
    lm = scripted(STORY)
    for word in ("window", "garden"):
        rows = Beam(width=60)(requiring(lm, (word,), (word, "dog")), noise(4))
        assert [met(lm.decode(row), [word]) for row in rows] == [[word]] * 4


def test_the_beam_takes_whichever_form_the_model_prefers():
    lm = scripted(STORY)
    rows = Beam()(requiring(lm, ("window|river",), ("dog|window", "city|garden")), noise(2))
    texts = [lm.decode(row) for row in rows]
    assert met(texts[0], ["river"])
    assert met(texts[1], ["dog", "city"]) == ["dog", "city"]


TOKENS = ("\n", "The", " dog", " river", " ran", " was", " the", " and", "s", ".", ",")
NOUNS = ("dog", "dogs", "river", "ran", "was", "and")
SETS = int(os.environ.get("COLD_SETS", "300"))


def test_no_set_of_words_makes_the_beam_write_what_is_to_be_avoided():
    """Random sets on random bigrams: nothing avoided comes, and what counts as met is there as a word of its own."""
    tokens = torch.tensor([tiny_lm().encode(text)[0] for text in TOKENS])
    draw, complete = random.Random(0), 0
    for seed in range(SETS // 50):
        table = torch.full((VOCAB, VOCAB), -30.0)
        likely = torch.randn(len(TOKENS), len(TOKENS), generator=torch.Generator().manual_seed(seed))
        table[tokens[:, None], tokens] = 2 * likely
        lm = LanguageModel(Bigram(table), tiny_lm().tokenizer)
        found = []
        for _ in range(50):
            one, two, three, four, *others = draw.sample(NOUNS, len(NOUNS))
            asked = (one, two, f"{three}|{four}")[: draw.randint(0, 3)]
            found.append(Example(words=asked, avoid=tuple(others[: draw.randint(0, 2)])))
        problems = job(lm, left=["The dog ran.\n"] * 50, length=8, examples=tuple(found))
        rows = Beam(width=8, top=6, max_length=8, no_repeat=0)(problems, noise(50))
        for row, example in zip(rows, found, strict=True):
            there = re.findall(r"[a-z]+", lm.decode(row).lower())
            assert not set(there) & set(example.avoid), (lm.decode(row), example)
            known = met(lm.decode(row), example.words)
            assert all(set(word.split("|")) & set(there) for word in known)
            complete += len(known) == len(example.words)
    assert complete > SETS / 2


def test_with_trust_the_beam_writes_what_the_soft_sequence_says():
    lm = tiny_lm()
    problems, told = requiring(lm, ()), "The bird saw a dog."
    ids = problems.story.y_ids([told])[0]
    y = 20.0 * torch.nn.functional.one_hot(torch.tensor([ids]), VOCAB).float()
    assert lm.decode(Beam(trust=8.0, blur=0.0, floor=-30.0, top=VOCAB)(problems, y)[0]) == told


def test_a_row_of_the_beam_does_not_depend_on_the_other_rows():
    lm = tiny_lm()
    wanted, y, beam = [("dog",), ("river", "water"), ()], noise(6), Beam(width=6, top=40, max_length=10)
    together = beam(requiring(lm, *wanted), y)
    for example in range(3):
        whole = requiring(lm, *wanted)
        own = replace(
            whole,
            story=Context(lm, left=whole.story.left[example]),
            examples=(whole.examples[example],),
        )
        for sample in (2 * example, 2 * example + 1):
            assert beam(own, y[sample : sample + 1]) == [together[sample]], sample
