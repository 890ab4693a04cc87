"""The automaton of the clauses says of every text what a search of the whole text says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cold.errors import ColdError
from cold.text.clauses import START, Clauses, Literal

TOKENS = st.integers(0, 2)
PHRASES = st.lists(TOKENS, min_size=1, max_size=4).map(tuple)
ASKED = st.lists(PHRASES | PHRASES.map(lambda p: (START, *p)), min_size=1, max_size=3).map(
    lambda phrases: tuple(Literal(phrase) for phrase in phrases)
)
BANNED = PHRASES.map(lambda phrase: (Literal(phrase, positive=False),))
CNF = st.lists(ASKED | BANNED, max_size=4).map(lambda clauses: Clauses(tuple(clauses)))
TEXTS = st.lists(TOKENS, max_size=10)


def read(clauses: Clauses, text):
    state = clauses.start
    for token in text:
        state = clauses.advance(state, token)
    return state


def holds(text, phrase) -> bool:
    text = (START, *text)
    return any(text[i : i + len(phrase)] == phrase for i in range(len(text)))


def unmet(clauses: Clauses, text):
    return [
        [phrase for phrase, _ in clause]
        for clause in clauses.clauses
        if clause[0].positive and not any(holds(text, phrase) for phrase, _ in clause)
    ]


def begun(text, phrase):
    """Every number of a phrase's first tokens, short of all, that the text ends with."""
    text = (START, *text)
    return [n for n in range(len(phrase)) if text[len(text) - n :] == phrase[:n]]


@given(CNF, TEXTS)
def test_a_clause_is_met_when_one_of_its_phrases_stands_in_the_text(clauses, text):
    found = {
        number
        for number, clause in enumerate(clauses.clauses)
        if any(literal.positive and holds(text, literal.phrase) for literal in clause)
    }
    state = read(clauses, text)
    assert state.met == found
    assert clauses.satisfied(state) == (not unmet(clauses, text))


@given(CNF, TEXTS)
def test_the_forbidden_tokens_are_those_that_would_end_a_banned_phrase(clauses, text):
    banned = [clause[0].phrase for clause in clauses.clauses if not clause[0].positive]
    ends = {t for t in range(3) for phrase in banned if (START, *text, t)[-len(phrase) :] == phrase}
    assert clauses.forbidden(read(clauses, text)) == ends


@given(CNF, TEXTS)
def test_the_next_tokens_start_or_continue_every_unmet_phrase(clauses, text):
    phrases = [phrase for clause in unmet(clauses, text) for phrase in clause]
    wanted = {phrase[n] for phrase in phrases for n in begun(text, phrase)} - {START}
    found = clauses.next_tokens(read(clauses, text))
    assert set(found) == wanted
    assert len(found) == len(wanted)


@given(CNF, TEXTS)
def test_progress_is_the_largest_part_of_an_unmet_phrase_at_the_end(clauses, text):
    parts = [0.0]
    for clause in unmet(clauses, text):
        for phrase in clause:
            anchored = phrase[0] == START
            parts += [(n - anchored) / (len(phrase) - anchored) for n in begun(text, phrase) if n]
    assert clauses.progress(read(clauses, text)) == pytest.approx(max(parts))


@given(CNF, TEXTS)
def test_all_tokens_are_covered_exactly_when_all_is_met(clauses, text):
    state = read(clauses, text)
    assert 0 <= clauses.covered(state) <= sum(clauses.sizes.values())
    assert (clauses.covered(state) == sum(clauses.sizes.values())) == clauses.satisfied(state)


@given(CNF, TEXTS)
def test_writing_what_is_missing_meets_the_clause(clauses, text):
    state = read(clauses, text)
    for rest, at_once in clauses.missing(state):
        later = read(clauses, [*text, *rest])
        assert later.met > state.met
        assert at_once or any(rest == phrase for clause in unmet(clauses, text) for phrase in clause) or not text


def test_an_overlapping_start_is_not_missed():
    clauses = Clauses(((Literal((1, 1, 2)),),))
    state = read(clauses, [1, 1, 1])
    assert clauses.progress(state) == pytest.approx(2 / 3)
    assert clauses.next_tokens(state) == [1, 2]
    assert clauses.satisfied(clauses.advance(state, 2))


def test_a_phrase_for_the_start_counts_only_there():
    clauses = Clauses(((Literal((START, 1)), Literal((2, 1))),))
    assert clauses.satisfied(read(clauses, [1]))
    assert not clauses.satisfied(read(clauses, [0, 1]))
    assert clauses.satisfied(read(clauses, [0, 2, 1]))


@pytest.mark.parametrize(
    ("clauses", "fact"),
    [
        (((Literal((1,)), Literal((2,), False)),), "both asks for and bans"),
        (((Literal((1,), False), Literal((2,), False)),), "bans 2 phrases at once"),
        (((),), "is empty"),
        (((Literal(()),),), "is no phrase"),
        (((Literal((START,)),),), "is no phrase"),
        (((Literal((1, START)),),), "is no phrase"),
    ],
)
def test_what_is_no_clause_is_refused(clauses, fact):
    with pytest.raises(ColdError, match=fact):
        Clauses(clauses)
