"""What a beam remembers of a text, one token at a time, is what a look at the whole text would say."""

from hypothesis import given, settings
from hypothesis import strategies as st

from cold.text.beam import Copied
from cold.text.complete import repeats
from cold.text.wanted import Standing, Wanted
from tiny import tiny_lm

LM = tiny_lm()
WANTED = Wanted(LM, ["dog", "river bank|water", "umbrella|umbrellas", "it's"])
PIECES = sorted(
    {token for forms in WANTED.forms for ids in forms for token in ids}
    | {token for text in (" dog", "s", "'", "-", " Dog", ".", ",", " a", "’s", "é") for token in LM.encode(text)}
)
TOKENS = st.lists(st.sampled_from(PIECES), max_size=14)


ORDERED = Wanted(LM, WANTED.words, ordered=True)


@settings(deadline=None, max_examples=400)
@given(TOKENS, st.sampled_from([WANTED, ORDERED]))
def test_one_token_more_is_as_if_the_whole_text_were_read(tokens, wanted):
    ids, text, standing = (), "", Standing()
    for token in tokens:
        added = LM.token_strings[token]
        ids, text = (*ids, token), text + added
        standing = wanted.after(standing, ids, text, added)
        assert standing == wanted.of(ids, text)


def test_ordered_words_count_and_are_offered_in_their_order_only():
    early = " water"
    ids = tuple(LM.encode(early))
    assert WANTED.of(ids, early).found == ("river bank|water",)
    assert ORDERED.of(ids, early).found == ()
    assert list(ORDERED.pieces(Standing(), ())) == [ORDERED.forms[0][0][0]]
    both = early + " dog water"
    assert ORDERED.of(tuple(LM.encode(both)), both).found == ("dog", "river bank|water")


def test_a_word_half_written_counts_its_tokens():
    (word,) = [form for form in WANTED.forms[2] if len(form) > 2][:1]
    text = "".join(LM.token_strings[token] for token in word)
    half = WANTED.of(word[:2], "".join(LM.token_strings[token] for token in word[:2]))
    assert (half.whole, half.covered) == (0, 2)
    assert WANTED.of(word, text).found == ("umbrella|umbrellas",)
    assert word[2] in WANTED.pieces(half, word[:2])


def test_a_piece_says_how_much_it_would_cover():
    for token, covers in WANTED.pieces(Standing(), ()).items():
        assert WANTED.of((token,), LM.token_strings[token]).covered == covers


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), max_size=12), st.lists(st.integers(0, 3), max_size=8), st.integers(0, 5))
def test_copies_of_the_left_text_are_found_without_reading_it_again(left, ids, size):
    wanted = repeats([*left, *ids], size) if 0 < size <= len(ids) + 1 else []
    assert set(Copied(left, size).by(tuple(ids))) == set(wanted)
