"""Beams that must meet clauses: exact when they are wide enough, never in breach of a ban, the same with any cache."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cold.baselines.constrained_beam import ConstrainedBeam, allocate
from cold.baselines.hypotheses import Hypothesis, Limits, Pool, Script, Task
from cold.baselines.look_ahead import LookAhead
from cold.baselines.neurologic import NeuroLogic, as_written
from cold.baselines.phrases import phrases, script_of, tasks_of
from cold.baselines.search import Search, read_on
from cold.constraints import Fluency
from cold.errors import ColdError
from cold.lm import Context
from cold.lm.prefix import Prefix
from cold.lm.score import log_likelihood
from cold.text import sentences
from cold.text.clauses import START, Clauses, Literal, State
from cold.text.complete import repeats
from cold.text.problems import Example, Problems
from cold.text.words import met, word_ids
from small import small_problems
from tiny import VOCAB, tiny_lm

ALPHABET = (300, 301, 302)  # the toy writes with these
END = 400
LENGTH = 4  # tokens, the end among them
EVERYTHING = len(ALPHABET) ** LENGTH  # as wide as this a beam forgets nothing
WIDE = NeuroLogic(width=EVERYTHING, max_length=LENGTH, min_length=2, no_repeat=2, sat_tolerance=9, length_penalty=0.6)
CONSTRAINED = ConstrainedBeam(width=9 * EVERYTHING, max_length=LENGTH, min_length=2, no_repeat=2, length_penalty=0.6)

TOKENS = st.sampled_from(ALPHABET)
PHRASES = st.lists(TOKENS, min_size=1, max_size=2).map(tuple)
ASKED = st.lists(PHRASES, min_size=1, max_size=2).map(lambda phrases: tuple(Literal(phrase) for phrase in phrases))
BANNED = PHRASES.map(lambda phrase: (Literal(phrase, positive=False),))
CNF = st.lists(ASKED | BANNED, min_size=1, max_size=3).map(lambda clauses: Clauses(tuple(clauses)))


def toy(*tokens: int) -> torch.Tensor:
    found = torch.zeros(VOCAB, dtype=torch.bool)
    found[list(tokens)] = True
    return found


SCRIPT = Script(~toy(*ALPHABET, END), toy(), (END,), lambda ids: ids[-1] == END, toy(END))


def prefix(*lefts: Sequence[int]) -> Prefix:
    return Prefix.of(tiny_lm(), lefts or [[0, 50]])


def run(limits, clauses: Sequence[Clauses], best: int = 1, script: Script = SCRIPT, lefts=([0, 50],)):
    tasks = [Task(one, toy(*ALPHABET)) for one in clauses]
    return Search(limits, script, limits.choose, read_on)(prefix(*lefts), tasks, best)


def state_of(clauses: Clauses, ids) -> State:
    state = clauses.start
    for token in ids:
        state = clauses.advance(state, token)
    return state


def breaks(clauses: Clauses, ids) -> bool:
    bans = [clause[0].phrase for clause in clauses.clauses if not clause[0].positive]
    return any(ids[i : i + len(ban)] == ban for ban in bans for i in range(len(ids)))


def exhaustive(clauses: Clauses, limits: Limits) -> list[tuple[float, tuple[int, ...]]]:
    """Every text that may be written and meets the clauses, the best first."""
    texts = [(*body, END) for n in range(1, LENGTH) for body in product(ALPHABET, repeat=n)]
    texts = [t for t in texts if len(t) >= limits.min_length and clauses.satisfied(state_of(clauses, t))]
    texts = [t for t in texts if not any(t[i] in repeats(t[:i], limits.no_repeat) for i in range(len(t)))]
    texts = [t for t in texts if not breaks(clauses, t)]
    if not texts:
        return []
    values = log_likelihood(prefix(*[[0, 50]] * len(texts)), texts).tolist()
    return sorted(((v / len(t) ** limits.length_penalty, t) for v, t in zip(values, texts, strict=True)), reverse=True)


@pytest.mark.parametrize("limits", [WIDE, CONSTRAINED], ids=["neurologic", "constrained beam"])
@settings(max_examples=25)
@given(CNF)
def test_a_beam_that_forgets_nothing_finds_what_exhaustive_search_finds(limits, clauses):
    wanted = exhaustive(clauses, limits)
    (found,) = run(limits, [clauses], best=3)
    if not wanted:  # nothing may be written: the most that could be met, without an end
        assert len(found) == 1
        assert found[0].ids[-1:] != (END,)
        return
    assert clauses.satisfied(found[0].state)
    assert [limits.merit(h) for h in found] == pytest.approx([value for value, _ in wanted[:3]], rel=1e-4)
    assert found[0].ids == wanted[0][1]


@pytest.mark.parametrize("kind", [NeuroLogic, ConstrainedBeam])
@settings(max_examples=25)
@given(st.lists(CNF, min_size=1, max_size=3), st.integers(1, 6))
def test_a_banned_phrase_never_comes_and_an_end_only_when_all_is_met(kind, several, width):
    found = run(kind(width=width, max_length=6, min_length=1, no_repeat=0), several, 3, lefts=[[0, 50]] * len(several))
    for clauses, texts in zip(several, found, strict=True):
        for text in texts:
            assert not breaks(clauses, text.ids)
            assert text.state == state_of(clauses, text.ids)
            assert clauses.satisfied(text.state) or END not in text.ids


def test_a_batch_of_tasks_is_searched_as_one_by_one():
    several = [Clauses(((Literal((t,)),), (Literal((u, t)),))) for t, u in ((300, 301), (302, 300), (301, 302))]
    lefts = [[0, 50], [0, 51, 52, 53], [0]]
    limits = NeuroLogic(width=4, max_length=8)
    together = run(limits, several, 2, lefts=lefts)
    for clauses, left, found in zip(several, lefts, together, strict=True):
        (alone,) = run(limits, [clauses], 2, lefts=[left])
        assert [h.ids for h in alone] == [h.ids for h in found]


def test_the_score_is_the_log_probability_that_the_lm_gives_the_text():
    (found,) = run(NeuroLogic(width=5, max_length=8), [Clauses(((Literal((301,)),),))], 3)
    values = log_likelihood(prefix(*[[0, 50]] * len(found)), [h.ids for h in found]).tolist()
    assert [h.logp for h in found] == pytest.approx(values, rel=1e-4)
    assert all(len(h.ids) >= 5 for h in found)


def test_tokens_beyond_the_prune_factor_are_dropped():
    log_probs = prefix().logits.log_softmax(-1)[0]
    ranked = sorted(ALPHABET, key=lambda t: -log_probs[t])
    clauses = Clauses(((Literal((ranked[-1],)),),))
    (free,) = run(NeuroLogic(width=1, max_length=1), [clauses])
    (pruned,) = run(NeuroLogic(width=1, max_length=1, prune_factor=2), [clauses])
    assert free[0].ids == (ranked[-1],)
    assert pruned[0].ids == (ranked[0],)


def hypothesis(logp: float, *clauses: int) -> Hypothesis:
    return Hypothesis((1, 2), logp, State(frozenset(clauses)))


def test_neurologic_fills_its_beam_round_the_sets_of_clauses_met():
    clauses = Clauses(tuple((Literal((9, n)),) for n in range(4)))
    best, second, third = hypothesis(-1, 0), hypothesis(-2, 0), hypothesis(-3, 0)
    other, poor, behind = hypothesis(-4, 1), hypothesis(-5, 1), hypothesis(0, 2)
    found = [third, poor, best, other, second]
    choose = NeuroLogic(sat_tolerance=0).choose
    assert choose(clauses, found, 4) == [best, other, second, poor]
    ahead = hypothesis(-9, 2, 3)
    assert choose(clauses, [*found, behind, ahead], 9) == [ahead]
    assert NeuroLogic(sat_tolerance=1).choose(clauses, [best, ahead], 9) == [best, ahead]


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), min_size=1, max_size=30), st.integers(1, 12))
def test_a_pool_gives_what_is_chosen_of_all_it_holds(offers, count):
    clauses = Clauses(tuple((Literal((9, n)),) for n in range(4)))
    kinds = [State(frozenset(range(n))) for n in range(5)]
    row = Hypothesis((1,), 0.0, State())
    pool = Pool([(0, row)])
    for n in sorted({n for n, _ in offers}):
        logps = sorted((-float(logp) for kind, logp in offers if kind == n), reverse=True)
        columns = [0] * len(logps), range(len(logps)), logps
        pool.groups[kinds[n]] = tuple(np.array(column) for column in columns)
    for choose in (NeuroLogic(sat_tolerance=9).choose, ConstrainedBeam().choose):
        assert pool.chosen(choose, clauses, count, few=1) == choose(clauses, pool.best(len(offers)), count)


def test_the_published_code_prefers_a_phrase_just_begun_and_the_paper_one_almost_whole():
    clauses = Clauses(((Literal((5, 6, 7, 8)),),))
    begun = Hypothesis((1, 5), -4.0, state_of(clauses, (1, 5)))
    further = Hypothesis((5, 6), -4.0, state_of(clauses, (5, 6)))
    neither = Hypothesis((1, 2), -4.0, state_of(clauses, (1, 2)))
    assert NeuroLogic().choose(clauses, [neither, further, begun], 3) == [begun, further, neither]
    assert NeuroLogic(bonus=as_written).choose(clauses, [neither, begun, further], 3) == [further, begun, neither]


def test_the_banks_share_the_beam_and_pass_on_what_they_cannot_use():
    assert allocate({0: 9, 1: 9, 2: 9}, 3, 9) == {2: 3, 1: 3, 0: 3}
    assert allocate({0: 9, 1: 9, 2: 1}, 3, 9) == {2: 1, 1: 5, 0: 3}
    assert allocate({0: 9, 3: 9}, 4, 9) == {3: 7, 0: 2}
    assert allocate({0: 1, 1: 1}, 3, 9) == {1: 1, 0: 1}


@settings(max_examples=10)
@given(st.lists(CNF, min_size=1, max_size=2), st.integers(1, 4))
def test_a_look_ahead_that_weighs_nothing_changes_nothing(several, width):
    plain = NeuroLogic(width=width, max_length=6, min_length=1)
    tasks = [Task(one, toy(*ALPHABET)) for one in several]
    lefts = prefix(*[[0, 50]] * len(several))
    look = LookAhead(2, SCRIPT.never)
    weightless = replace(plain, look_ahead=2, alpha=0.0)
    found = Search(weightless, SCRIPT, weightless.choose, read_on, look)(lefts, tasks, 2)
    wanted = Search(plain, SCRIPT, plain.choose, read_on)(lefts, tasks, 2)
    assert [[h.ids for h in texts] for texts in found] == [[h.ids for h in texts] for texts in wanted]


def test_the_look_ahead_finds_the_best_place_of_any_missing_phrase():
    one, two = (301,), (302, 300)
    clauses = Clauses(((Literal(one),), (Literal(two),), (Literal((300, 300, 301)),)))
    ids = [300]
    beam = [Hypothesis((300,), 0.0, state_of(clauses, ids)), Hypothesis((300,), 0.0, State(frozenset({0, 1, 2})))]
    read = prefix([0, 50, 300], [0, 50, 300])
    found = LookAhead(2, SCRIPT.never)(read, [Task(clauses, toy())], {0: beam})[0]
    values, text = [], [0, 50, 300]
    for offset in range(3):
        phrases = [one, two, (300, 300, 301)] + [(300, 301)] * (offset == 0)
        values += [float(log_likelihood(prefix(text), [p])[0]) / len(p) for p in phrases]
        text.append(int(prefix(text).logits.masked_fill(SCRIPT.never, -float("inf")).argmax()))
    assert found[0].ahead == pytest.approx(max(values), rel=1e-4)
    assert found[1].ahead == 0.0


def test_a_phrase_that_is_half_written_counts_only_at_once():
    seconds = range(310, 330)
    tasks = [Task(Clauses(((Literal((300, second)),),)), toy()) for second in seconds]
    beams = {n: [Hypothesis((300,), 0.0, state_of(task.clauses, (300,)))] for n, task in enumerate(tasks)}
    found = LookAhead(1, SCRIPT.never)(prefix(*[[0, 50, 300]] * len(tasks)), tasks, beams)
    now = prefix([0, 50, 300])
    later = now.append_ids(now.logits.masked_fill(SCRIPT.never, -float("inf")).argmax(-1))
    for n, second in enumerate(seconds):
        anew = [float(log_likelihood(at, [(300, second)])[0]) / 2 for at in (now, later)]
        assert found[n][0].ahead == pytest.approx(max(*anew, float(log_likelihood(now, [(second,)])[0])), rel=1e-4)


def words_job(*words: tuple[str, ...], left: str = "The dog ran.\n") -> Problems:
    story = Context(tiny_lm(), left=[left] * len(words))
    return Problems(story, 1.0 * Fluency(story), 6, tuple(Example(words=some) for some in words))


WRITERS = {
    "neurologic": NeuroLogic(width=6, max_length=16),
    "a*esque": NeuroLogic(width=6, max_length=16, look_ahead=2),
    "constrained beam": ConstrainedBeam(width=8, max_length=16),
}


@pytest.mark.parametrize("writer", WRITERS.values(), ids=list(WRITERS))
def test_every_row_is_one_sentence_with_all_the_words(writer):
    words = (("river", "dog"), ("water", "door"))
    texts = writer(words_job(*words), None, range(4))
    assert len(texts) == 4
    for row, text in enumerate(texts):
        assert len(sentences.split(text)) == 1
        assert sentences.is_complete(text)
        assert met(text, words[row // 2]) == list(words[row // 2])
        assert text[0].isupper()
    assert texts[0] != texts[1]


def test_nothing_long_is_copied_from_the_left_text():
    clauses, left = Clauses(), (0, 300, 301, 302)
    copying = Search(limits := NeuroLogic(width=1, max_length=4, echo=0), SCRIPT, limits.choose, read_on)
    wanted = copying(prefix(left), [Task(clauses, toy(300))], 1)[0][0].ids
    careful = replace(copying, limits=NeuroLogic(width=1, max_length=4, echo=3))
    found = careful(prefix(left), [Task(clauses, toy(300), (0, *wanted[:3]))], 1)[0][0].ids
    assert found[:2] == wanted[:2]
    assert found[2] != wanted[2]


def test_the_cache_does_not_change_the_texts():
    problems = words_job(("river", "dog"), ("water",))
    for writer in (WRITERS["neurologic"], WRITERS["a*esque"]):
        assert writer(problems, None, range(4)) == replace(writer, cache=False)(problems, None, range(4))


@pytest.mark.parametrize("writer", WRITERS.values(), ids=list(WRITERS))
def test_a_banned_word_is_not_written(writer):
    problems = words_job(("river",))
    texts = writer(problems, None, range(3))
    word = next(word for word in texts[0].split()[1:-1] if word.isalpha() and word != "river")
    others = replace(writer, banned=(word,))(problems, None, range(3))
    assert all(word not in text.rstrip(".!?").split() for text in others)
    assert others != texts


def test_keywords_stand_in_where_no_word_is_required():
    problems = small_problems(tiny_lm())
    bare = tuple(replace(example, words=()) for example in problems.examples)
    found = tasks_of(replace(problems, examples=bare))
    assert [len(task.clauses.sizes) for task in found] == [1, 2]
    assert [task.clauses for task in found] == [task.clauses for task in tasks_of(problems)]


def test_a_word_has_a_form_for_the_start_of_a_sentence():
    lm = tiny_lm()
    assert (START, *word_ids(lm, "Dog")) in phrases(lm, "He ran.", "dog")
    assert (START, *lm.encode_after("Dog", "\n")) in phrases(lm, "He ran.\n", "dog")
    assert phrases(lm, "He ran.", "dog")[0] == tuple(word_ids(lm, "dog"))
    assert phrases(lm, "He ran.", "dog|cat") == [*phrases(lm, "He ran.", "dog"), *phrases(lm, "He ran.", "cat")]


def test_a_word_is_not_met_by_the_beginning_of_a_longer_one():
    script, lm = script_of(tiny_lm()), tiny_lm()
    assert script.glue[lm.encode_after("s", "dog")[0]]
    assert not script.glue[word_ids(lm, "ran")[0]]


def test_what_cannot_be_finished_in_time_is_still_a_text():
    problems = words_job(("river", "water", "guitar"))
    texts = NeuroLogic(width=3, max_length=3)(problems, None, range(2))
    assert texts[0] == texts[1] != ""


@pytest.mark.parametrize("wrong", [{"width": 0}, {"max_length": 0}, {"length_penalty": -1.0}])
def test_limits_that_cannot_work_are_refused(wrong):
    with pytest.raises(ColdError, match=r"take at least 1|when to stop"):
        NeuroLogic(**wrong)
