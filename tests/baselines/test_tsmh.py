"""TSMH: its tree search can be undone exactly, mends what is violated, and rows do not see each other."""

import math
from functools import cache

import pytest
from test_metropolis import Tables, agrees, every_state, is_irreducible, keeps, target, transition

from cold.baselines.base import Baseline
from cold.baselines.cgmh import sentences_of
from cold.baselines.draws import Seeded
from cold.baselines.metropolis import Around, moves, outcomes, run, walk
from cold.baselines.tsmh import ANY, KEEP, RELEASED, TSMH, Constrained, Edit, TreeSearch, mirror, violations
from cold.recipes import preset
from cold.tasks import examples
from cold.text.words import met
from small import small_problems
from tiny import tiny_lm

OUT, OTHER, NEW = Edit(True, None), Edit(True, ANY), Edit(False, ANY)


class Remembering(TreeSearch):
    """The same search, which is a function of its arguments, done once for each."""

    @cache  # noqa: B019
    def search(self, state, at):
        return super().search(state, at)


@pytest.mark.parametrize(
    ("places", "tokens", "lengths"),
    [(1, 5, [0, 1, 2, 3]), (2, 3, [1, 2, 3]), (3, 2, [2, 3])],
    ids=["one place", "two places", "three places"],
)
def test_the_target_over_short_texts_is_kept(places, tokens, lengths):
    """Six words or fewer: the tokens and a keyword, which may be missing or there twice."""
    search = Remembering(1, max(lengths), places, slack=0.2, wide=0.3)
    oracle, states = Tables(tokens=tokens, top=2, penalty=1.5), every_state(range(-1, tokens), lengths)
    matrix = transition(search, states, oracle)
    assert keeps(matrix, target(states, oracle)) < 1e-10
    assert is_irreducible(matrix)


def test_a_sampled_histogram_agrees_with_the_target():
    oracle, states = Tables(tokens=5, top=2, penalty=1.5), every_state(range(-1, 5), [1, 2, 3])
    assert agrees(Remembering(1, 3, 2, slack=0.2, wide=0.3), states, oracle, chains=1000)


def test_the_probability_it_says_is_the_one_it_draws_with():
    search, oracle = TreeSearch(1, 3, 2, slack=0.2, wide=0.3), Tables(tokens=4, top=2)
    for probability, proposal in outcomes(search, (-1, 2), oracle):
        assert math.log(probability) == pytest.approx(proposal.forward)
    assert sum(moves(search, (-1, 2), oracle).values()) == pytest.approx(1.0)


def test_the_mirror_of_a_mirror_is_the_template_itself():
    state, at, template = (4, -1, 6, 7), (0, 1, 4), (NEW, OUT, KEEP)
    back_at, back = mirror(state, at, template)
    assert (back_at, back) == ((0, 2, 4), (OUT, Edit(False, -1), KEEP))
    assert mirror((9, 4, 6, 7), back_at, back) == (at, template)


def test_templates_with_the_fewest_violations_have_all_the_weight_but_a_little():
    tree = TreeSearch(1, 5, 2, slack=1e-3).search((3, 4), (0, 2))
    best = tree.share((Edit(False, -1), KEEP))
    assert tree.share((OTHER, Edit(False, -1))) == best
    assert tree.share((OTHER, KEEP)) == pytest.approx(1e-3 * best)
    assert tree.share((Edit(False, -1), Edit(False, -1))) == pytest.approx(1e-3 * best)
    assert tree.share((KEEP, KEEP)) == 0.0


def test_places_that_would_fall_together_are_not_searched():
    near, apart = (TreeSearch(0, 5, 2).search((3, 4, 5), at) for at in [(0, 1), (0, 2)])
    assert OUT not in near.edits[0]
    assert OUT in near.edits[1]
    assert apart.share((OUT, OTHER)) == near.share((NEW, OTHER)) * near.weights.sum() / apart.weights.sum()


def test_a_lost_keyword_is_mended_soon():
    search, oracle = TreeSearch(1, 4, 2), Tables(tokens=5, top=3)
    oracle.penalty = -math.log(1e-10)
    (visited,) = run([walk(search, (2, 3), Seeded(0), 20)], oracle)
    assert next(reversed(visited)).count(-1) == 1


def test_violations_are_words_missing_and_words_too_many():
    assert violations((-1, 5, -2), 2) == 0
    assert violations((5,), 2) == 2
    assert violations((-1, -1, -1, -2), 2) == 2


# -- with the tiny models ------------------------------------------------------------------------------------------


def write(problems, seeds, **changes):
    return TSMH(steps=12, top=20, longest=10, **changes)(problems, tiny_lm(reverse=True), seeds)


def test_every_row_has_a_finished_text_with_all_its_words():
    problems = small_problems(tiny_lm())
    texts = write(problems, [1, 2, 3, 4])
    for row, text in enumerate(texts):
        assert set(met(text, problems.examples[row // 2].words)) == set(problems.examples[row // 2].words)
        assert text.endswith(".")
    assert len(set(texts)) > 2


def test_an_example_with_one_word_or_none_is_written_too():
    batch = [examples.lexical(["water"]), examples.abductive("The dog ran.", "It was wet.")]
    for name, example in zip(("lexical", "abductive"), batch, strict=True):
        recipe = preset(name, "fast").with_(samples=2)
        (found,) = Baseline(TSMH(steps=4, top=4))(recipe, tiny_lm(), tiny_lm(reverse=True), [example])
        assert all(met(s.text, example.words) == list(example.words) for s in found.samples)


def test_the_same_seed_gives_the_same_text_and_a_batch_is_its_rows_alone():
    batch = write(small_problems(tiny_lm()), [5, 6, 5, 6], heuristic=RELEASED)
    assert write(small_problems(tiny_lm()), [5, 6, 5, 6], heuristic=RELEASED) == batch
    alone = [
        write(small_problems(tiny_lm(), examples=(i,)), [seed], heuristic=RELEASED)[0]
        for i in (0, 1)
        for seed in (5, 6)
    ]
    assert alone == batch


def test_a_word_of_one_token_is_no_token_for_a_gap_and_every_violation_costs_beta():
    world = sentences_of(small_problems(tiny_lm()), None, None, 2, 500)
    oracle = Constrained(world, math.log(1e-10))
    (ids,) = [run for run in world.runs[0] if len(run) == 1] or [None]
    if ids is not None:
        (near,) = oracle.near([0], [Around((), ())])
        assert near.log_probs[ids[0]] == -math.inf
        assert near.log_probs.exp().sum() == pytest.approx(1.0)
    plain, costly = world.score([0], [(5, 6)]), oracle.score([0], [(5, 6)])
    assert costly[0] == pytest.approx(plain[0] + math.log(1e-10))
