"""Where sentences end and what counts as a word, by examples and by laws."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cold.errors import ColdError
from cold.tasks import examples
from cold.text.sentences import clean, first, has_loop, is_complete, split
from cold.text.words import STOP_WORDS, content_words, in_order, met, words_of

TEXTS = st.text(alphabet="abIé3 .!?…,'’\"”()-\n", max_size=40)
WORDS = st.text(alphabet="abcdeé", min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        (" \n ", []),
        ("no end here", ["no end here"]),
        ("He ran. She", ["He ran.", "She"]),
        ("One.\nTwo.", ["One.", "Two."]),
        ("Mr. Smith met Dr. Jones. They spoke.", ["Mr. Smith met Dr. Jones.", "They spoke."]),
        ("Visit the U.S. Army, e.g. Fort Knox. Now.", ["Visit the U.S. Army, e.g. Fort Knox.", "Now."]),
        ("J. R. Tolkien wrote it. It sold.", ["J. R. Tolkien wrote it.", "It sold."]),
        ("So do I. You too.", ["So do I.", "You too."]),
        ('"Stop!" he said. She did.', ['"Stop!" he said.', "She did."]),
        ('He said "Go." Then he left.', ['He said "Go."', "Then he left."]),
        ("“Go.” He went.", ["“Go.”", "He went."]),
        ("He left (at noon.) Then he slept.", ["He left (at noon.)", "Then he slept."]),
        ("It cost 3.5 dollars. He paid.", ["It cost 3.5 dollars.", "He paid."]),
        ("He is 5. She is 6.", ["He is 5.", "She is 6."]),
        ("Wait... what? No.", ["Wait... what?", "No."]),
        ("Wait... What now?", ["Wait...", "What now?"]),
        ("Wait… Then go.", ["Wait…", "Then go."]),
        ("Really?! Yes!!!", ["Really?!", "Yes!!!"]),
        ("What?! he cried.", ["What?! he cried."]),
        ("Ça va? Été. Ünder", ["Ça va?", "Été.", "Ünder"]),
        ("Go to cold.org.", ["Go to cold.org."]),
    ],
)
def test_a_text_splits_where_sentences_end(text, parts):
    assert split(text) == parts
    assert first(text) == (parts[0] if parts else "")


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("He ran.", True),
        ("He ran. \n", True),
        ("He ran", False),
        ("He ran,", False),
        ("He ran. She", False),
        ("", False),
        (".", False),
        ("So do I.", True),
        ("He met J.", False),
        ("He met Mr.", False),
        ("It cost 3.", True),
        ("It cost 3.5", False),
        ("Why?!", True),
        ("Wait...", True),
        ("Wait…", True),
        ('He said "Go."', True),
        ("“Go!”", True),
        ("(He ran.)", True),
        ("Il a mangé.", True),
    ],
)
def test_a_text_is_complete_only_where_a_sentence_ends(text, complete):
    assert is_complete(text) == complete


@given(TEXTS)
def test_the_parts_of_a_split_hold_all_words_of_the_text_in_order(text):
    parts = split(text)
    assert [word for part in parts for word in words_of(part)] == words_of(text)
    assert all(part == part.strip() != "" for part in parts)


@given(TEXTS)
def test_all_parts_but_the_last_are_complete_and_none_splits_again(text):
    parts = split(text)
    assert all(is_complete(part) for part in parts[:-1])
    assert all(split(part) == [part] for part in parts)


@pytest.mark.parametrize(
    ("text", "n", "loops"),
    [
        ("the dog ran and the dog ran", 3, True),
        ("The dog ran. The DOG ran!", 3, True),
        ("the dog ran and the dog sat", 3, False),
        ("the dog ran and the dog sat", 2, True),
        ("a a a", 3, False),
        ("a a a a", 3, True),
        ("", 3, False),
        ("no no", 1, True),
    ],
)
def test_a_text_loops_when_n_words_in_a_row_come_twice(text, n, loops):
    assert has_loop(text, n) == loops


@given(TEXTS)
def test_cleaning_leaves_single_blanks_and_cleaning_again_changes_nothing(text):
    cleaned = clean(text)
    assert clean(cleaned) == cleaned
    assert "\n" not in cleaned
    assert "  " not in cleaned
    assert words_of(cleaned) == words_of(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't stop—ever!", ["don't", "stop", "ever"]),
        ("O’Neil's state-of-the-art", ["o'neil's", "state-of-the-art"]),
        ("-dash- 'quoted' x_y", ["dash", "quoted", "x", "y"]),
        ("3.5 kg", ["3", "5", "kg"]),
        ("Naïve STRASSE café", ["naïve", "strasse", "café"]),
        ("cafe\u0301", ["caf\u00e9"]),
        ("... !?", []),
    ],
)
def test_words_are_lower_case_and_hold_inner_marks_only(text, words):
    assert words_of(text) == words


@pytest.mark.parametrize(
    ("text", "without", "words"),
    [
        ("The dog ran to the dog house.", "", ["dog", "ran", "house"]),
        ("She wasn’t a doctor.", "", ["doctor"]),
        ("Arnold dumped his girlfriend.", "Arnold was scared of cats.", ["dumped", "girlfriend"]),
        ("It is what it is", "", []),
        ("Plan B works", "", ["plan", "works"]),
    ],
)
def test_content_words_come_once_in_order_less_those_of_the_other_text(text, without, words):
    assert content_words(text, without) == words


@given(TEXTS, TEXTS)
def test_content_words_are_neither_stop_words_nor_words_of_the_other_text(text, without):
    found = content_words(text, without)
    assert len(found) == len(set(found))
    assert not set(found) & (STOP_WORDS | set(words_of(without)))
    assert set(found) <= set(words_of(text))


@pytest.mark.parametrize(
    ("text", "wanted", "there"),
    [
        ("The dogs ran.", ["dog"], []),
        ("The dog's bone", ["dog"], []),
        ("A DOG, a cat.", ["cat", "Dog"], ["cat", "Dog"]),
        ("They live in New York.", ["new york"], ["new york"]),
        ("York is new.", ["new york"], []),
        ("He won’t go", ["won't"], ["won't"]),
        ("A well-known man", ["well", "known", "well-known"], ["well-known"]),
        ("Ein CAFÉ", ["café", "cafe"], ["café"]),
        ("", ["dog"], []),
        ("dog", [], []),
    ],
)
def test_a_wanted_word_is_met_as_a_whole_word_in_any_case(text, wanted, there):
    assert met(text, wanted) == there


@given(st.lists(WORDS, max_size=6), WORDS)
def test_a_word_is_met_exactly_when_it_is_one_of_the_words(words, wanted):
    text = " ".join(words)
    expected = [wanted] if wanted in words else []
    assert met(text, [wanted]) == expected
    assert met(text.upper(), [wanted]) == expected
    assert met(text, [wanted.upper()]) == [word.upper() for word in expected]


@given(st.lists(WORDS, max_size=6), WORDS, WORDS)
def test_either_form_will_do(words, one, other):
    text, wanted = " ".join(words), f"{one} | {other}"
    assert met(text, [wanted]) == ([wanted] if {one, other} & set(words) else [])


@given(WORDS, WORDS)
def test_a_word_is_never_met_inside_a_longer_one(word, more):
    for longer in (word + more, more + word, f"{word}-{more}", f"{more}'{word}"):
        assert met(f"a {longer} b", [f"{word}"]) == ([word] if word in ("a", "b") else [])


@pytest.mark.parametrize("text", ["a b", "...", ""])
def test_what_has_no_letters_is_never_met(text):
    assert met(text, ["..."]) == []


@pytest.mark.parametrize("words", [[], ["dog", "..."], ["dog", " "]])
def test_a_task_without_a_real_word_is_refused_in_one_line(words):
    with pytest.raises(ColdError) as error:
        examples.lexical(words)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("avoid", [["Dog"], ["cat", " dog "]])
def test_a_word_cannot_be_asked_for_and_avoided(avoid):
    with pytest.raises(ColdError, match="'dog' must come and must not come"):
        examples.lexical(["dog", "park"], avoid)
    assert examples.lexical(["dog|puppy"], avoid).words == ("dog|puppy",)


def test_with_inflections_any_form_is_asked_for_and_the_word_itself_comes_first():
    assert examples.lexical(["wash", "red shoe"], inflections=True).words == (
        "wash|washed|washes|washing",
        "red shoe|red shod|red shoed|red shoeing|red shoes",
    )


def test_tasks_work_out_their_keywords():
    assert examples.lexical([" dog", "park", "dog"]).words == ("dog", "park")
    bridge = examples.abductive("Arnold was scared of cats.", " Arnold dumped his girlfriend. ")
    assert (bridge.right, bridge.keywords) == ("Arnold dumped his girlfriend.", ("dumped", "girlfriend"))
    assert examples.counterfactual("Jon sold it.", "Jon bought a car.").keywords == ("jon", "bought", "car")
    for left, right in (("", "It ended."), ("It began.", "..."), (" ", "It ended.")):
        with pytest.raises(ColdError, match="is empty: give a sentence"):
            examples.abductive(left, right)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The dog ran to the door.", ["dog", "door|gate"]),
        ("The door hit the dog.", ["dog"]),
        ("The door hit the dog at the gate.", ["dog", "door|gate"]),
        ("A gate.", []),
        ("The dogs ran to the door.", []),
    ],
)
def test_words_in_their_order(text, found):
    assert in_order(text, ["dog", "door|gate"]) == found


def test_one_word_does_not_count_twice():
    assert in_order("A red dog.", ["dog", "dog"]) == ["dog"]
    assert in_order("A dog saw a dog.", ["dog", "dog"]) == ["dog", "dog"]


@given(st.lists(st.sampled_from(["a dog", "ran", "home", "dog"]), max_size=8), st.permutations(["dog", "ran", "home"]))
def test_what_comes_in_order_comes_and_opens_the_list(parts, wanted):
    text = " ".join(parts)
    found = in_order(text, wanted)
    assert found == wanted[: len(found)]
    assert set(found) <= set(met(text, wanted))
