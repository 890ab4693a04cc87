"""Left text, y and right text are encoded apart and put together: that must be how the whole text is encoded."""

import json
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from cold.lm import Context, LanguageModel
from cold.text.sentences import clean
from cold.text.words import word_ids
from tiny import SENTENCES, tiny_lm, tiny_tokenizer

LLAMA3 = (  # its regular expression: contractions, words with one leading mark, up to three digits, blanks
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
SPECIAL = ["<unk>", "<s>", "</s>"]


def byte_level() -> PreTrainedTokenizerFast:
    """GPT-2, OPT, GPT-NeoX."""
    return tiny_tokenizer()


def byte_level_with_its_own_split() -> PreTrainedTokenizerFast:
    """Llama 3, Qwen: a regular expression splits, bytes are only spelled."""
    bpe = Tokenizer(models.BPE())
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    bpe.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"), bytes_only])
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=512, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    bpe.train_from_iterator(SENTENCES, trainer)
    return wrap(bpe)


def metaspace(scheme: str) -> PreTrainedTokenizerFast:
    """Llama 2 and its like: a blank before the first word (first), or before each piece between special tokens."""
    bpe = sentencepiece_like()
    bpe.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
    bpe.decoder = decoders.Sequence([*spelled(), decoders.Strip(" ", 1, 0)])
    return wrap(bpe)


def normalized() -> PreTrainedTokenizerFast:
    """Llama 2 as first published: the blank is put in front by a normalizer."""
    bpe = sentencepiece_like()
    bpe.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    bpe.decoder = decoders.Sequence([*spelled(), decoders.Strip(" ", 1, 0)])
    return wrap(bpe)


def without_prefix() -> PreTrainedTokenizerFast:
    """Gemma: blanks are spelled, none is added."""
    bpe = sentencepiece_like()
    bpe.normalizer = normalizers.Replace(" ", "▁")
    bpe.decoder = decoders.Sequence(spelled())
    return wrap(bpe)


def sentencepiece_like() -> Tokenizer:
    """BPE over whole words with a leading blank, unknown characters as bytes."""
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=SPECIAL + BYTES, show_progress=False)
    trained.train_from_iterator(SENTENCES, trainer)
    found = json.loads(trained.to_str())["model"]
    merges = [tuple(merge) for merge in found["merges"]]
    return Tokenizer(models.BPE(found["vocab"], merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))


def spelled() -> list:
    return [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]


def wrap(bpe: Tokenizer) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=bpe, unk_token="<unk>", bos_token="<s>", eos_token="</s>")


FAMILIES = {
    "byte_level": byte_level,
    "byte_level_with_its_own_split": byte_level_with_its_own_split,
    "metaspace_first": lambda: metaspace("first"),
    "metaspace_always": lambda: metaspace("always"),
    "normalized": normalized,
    "without_prefix": without_prefix,
}
WITH_PREFIX = ("metaspace_first", "metaspace_always", "normalized")
every_family = pytest.mark.parametrize("family", list(FAMILIES))
SIMPLE = st.lists(st.text("abdehinorstuwyADT", min_size=1, max_size=8), min_size=1, max_size=5).map(" ".join)
TRIPLES = [
    *zip(SENTENCES[::3], SENTENCES[1::3], SENTENCES[2::3], strict=True),
    ("Anna bought 12 eggs.", "She paid $3.50, I think.", "2 of them broke."),
    ("He said:", '"Go home!"', "(Nobody did.)"),
    ("Zoë ate crème brûlée.", "¿Qué? 日本 and naïve 🙂.", "“Fine,” she said."),
    ("It's Ben's.", "Isn't it?", "'Tis."),
    ("No end", "nor start", "here"),
]


@cache
def lm_of(family: str) -> LanguageModel:
    tokenizer = FAMILIES[family]()
    return LanguageModel(tiny_lm(vocab=len(tokenizer)).model, tokenizer, name=family)


def joined(lm: LanguageModel, left: str, y: str, right: str) -> list[int]:
    """As the contexts put it together, the separator aside."""
    context = Context(lm, left, right)
    return [i for i in context.left_ids[0] if i != lm.separator] + context.y_ids([y])[0] + context.right_ids[0]


@every_family
def test_three_texts_joined_with_spaces_are_encoded_as_one(family):
    lm = lm_of(family)
    for triple in TRIPLES:
        assert joined(lm, *triple) == lm.encode(" ".join(triple)), triple


@every_family
def test_a_text_behind_a_newline_opens_a_line_and_carries_no_space(family):
    lm = lm_of(family)
    for left, y, right in TRIPLES:
        context = Context(lm, left + "\n")
        assert context.opens_line == [True]
        assert joined(lm, left + "\n", y, right) == lm.encode(f"{left}\n{y} {right}"), y
        assert lm.decode(context.y_ids([y])[0]) == y


@every_family
def test_a_text_that_opens_the_document_is_encoded_as_such(family):
    lm = lm_of(family)
    assert Context(lm).opens_line == [True]
    for _, y, right in TRIPLES:
        assert joined(lm, "", y, right) == lm.encode(f"{y} {right}"), y


@every_family
def test_blanks_around_the_texts_change_nothing(family):
    lm = lm_of(family)
    assert joined(lm, "  The dog ran. ", " It fell. ", "\n He slept. ") == lm.encode("The dog ran. It fell. He slept.")
    assert joined(lm, "\n The dog ran.\n ", "It fell.", "He slept.") == lm.encode("The dog ran.\nIt fell. He slept.")


@every_family
@settings(max_examples=40)
@given(left=SIMPLE, y=SIMPLE, right=SIMPLE)
def test_any_simple_words_join_as_they_are_encoded(family, left, y, right):
    lm = lm_of(family)
    assert joined(lm, left, y, right) == lm.encode(f"{left} {y} {right}")
    assert joined(lm, left + "\n", y, right) == lm.encode(f"{left}\n{y} {right}")


@every_family
@pytest.mark.parametrize("word", ["dog", "river", "chrysanthemum", "won't", "café", "New York", "7"])
def test_a_keyword_is_what_stands_in_a_sentence_that_holds_it(family, word):
    lm = lm_of(family)
    before, ids, behind = lm.encode("She saw the"), word_ids(lm, word), lm.encode_after(" again.")
    assert lm.encode(f"She saw the {word} again.") == before + ids + behind
    assert clean(lm.decode(ids)) == word
    assert "".join(lm.token_strings[i] for i in ids).replace("\ufffd", "") == " " + word.replace("é", "")


@every_family
def test_a_keyword_at_the_start_of_a_line_has_other_ids_than_inside_it(family):
    lm = lm_of(family)
    bare = Context(lm, "A list:\n").y_ids(["river"])[0]
    assert bare != word_ids(lm, "river")
    assert lm.token_strings[bare[0]][:1] == "r"
    opening = Context(lm).y_ids(["river"])[0]
    assert (opening == word_ids(lm, "river")) == (family in WITH_PREFIX)


@every_family
def test_what_is_decoded_behind_a_text_is_what_was_encoded(family):
    lm = lm_of(family)
    for sentence in SENTENCES:
        ids = Context(lm, "He slept.").y_ids([sentence])[0]
        assert clean(lm.decode(ids)) == sentence
        assert "".join(lm.token_strings[i] for i in ids) == " " + sentence


def test_each_example_has_its_own_join():
    lm = lm_of("metaspace_first")
    context = Context(lm, left=["He slept.", "A list:\n", ""])
    assert context.opens_line == [False, True, True]
    inside, line, document = context.y_ids(["river"] * 3)
    assert inside == document != line
    assert context.y_ids(["river"] * 6) == [inside, inside, line, line, document, document]


@pytest.mark.lm
def test_smollm2_joins_as_it_encodes(smollm2):
    for left, y, right in TRIPLES:
        assert joined(smollm2, left, y, right) == smollm2.encode(f"{left} {y} {right}"), y
        assert joined(smollm2, left + "\n", y, right) == smollm2.encode(f"{left}\n{y} {right}"), y
        assert joined(smollm2, "", y, right) == smollm2.encode(f"{y} {right}"), y


@pytest.mark.lm
@settings(max_examples=60)
@given(left=SIMPLE, y=SIMPLE, right=SIMPLE)
def test_smollm2_joins_any_simple_words_as_it_encodes_them(smollm2, left, y, right):
    assert joined(smollm2, left, y, right) == smollm2.encode(f"{left} {y} {right}")
