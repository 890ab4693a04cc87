"""CGMH: its kernel keeps P exactly, keywords are never lost, and rows do not see each other."""

import pytest
import torch
from test_metropolis import TOKENS, Tables, agrees, every_state, is_irreducible, keeps, target, transition

from cold.baselines.base import Baseline
from cold.baselines.cgmh import CGMH, NOTHING, RELEASED, REPLACE, RESIZE, Replace, Resize, best_text, sentences_of
from cold.baselines.draws import Seeded
from cold.baselines.metropolis import Around, Fill, Mixture, Stay, acceptance, outcomes, run, walk
from cold.baselines.proposals import Gap, Product
from cold.errors import ColdError
from cold.lm import score
from cold.lm.prefix import Prefix
from cold.lm.score import log_likelihood, next_logits
from cold.recipes import preset
from cold.tasks import examples
from cold.text.words import met, word_ids
from small import small_problems
from tiny import tiny_lm


def kernel(longest=3, wide=0.1):
    return Mixture((Replace(wide), Resize(longest, wide), Stay()), (REPLACE, RESIZE, NOTHING))


@pytest.mark.parametrize(("top", "wide"), [(TOKENS, 0.0), (3, 0.1)])
def test_without_keywords_the_target_over_all_texts_up_to_three_tokens_is_kept(top, wide):
    oracle, states = Tables(top=top), every_state(range(TOKENS), [0, 1, 2, 3])
    matrix = transition(kernel(wide=wide), states, oracle)
    assert keeps(matrix, target(states, oracle)) < 1e-10
    assert is_irreducible(matrix)


@pytest.mark.parametrize(("top", "wide"), [(TOKENS, 0.0), (3, 0.1)])
def test_with_a_frozen_keyword_the_target_over_texts_that_have_it_is_kept(top, wide):
    states = [s for s in every_state(range(-1, TOKENS), [1, 2, 3]) if s.count(-1) == 1]
    oracle = Tables(top=top)
    matrix = transition(kernel(wide=wide), states, oracle)  # a state without the keyword would be unknown to it
    assert keeps(matrix, target(states, oracle)) < 1e-10
    assert is_irreducible(matrix)


def test_a_sampled_histogram_agrees_with_the_target():
    states = [s for s in every_state(range(-1, TOKENS), [1, 2, 3]) if s.count(-1) == 1]
    assert agrees(kernel(), states, Tables(top=3))


def test_replacing_among_all_candidates_is_gibbs_and_always_accepted():
    oracle = Tables()
    for _, proposal in outcomes(Replace(), (1, -1, 4), oracle):
        gain = oracle.log_pi(proposal.state) - oracle.log_pi((1, -1, 4))
        assert acceptance(gain, proposal) == pytest.approx(1.0)


def test_without_a_wide_share_a_token_that_is_no_candidate_stays():
    oracle = Tables(top=2)
    odd = next(t for t in range(TOKENS) if t not in oracle.gap(Around((), ())).best)
    assert all(acceptance(0.0, proposal) == 0.0 for _, proposal in outcomes(Replace(), (odd,), oracle))
    assert any(acceptance(0.0, proposal) > 0.0 for _, proposal in outcomes(Replace(0.1), (odd,), oracle))


def test_two_keywords_stay_in_order_and_the_length_stays_bounded():
    visited = run([walk(kernel(5), (-1, -2), Seeded(seed), 300) for seed in range(3)], Tables(top=3))
    for state in (state for chain in visited for state in chain):
        assert [token for token in state if token < 0] == [-1, -2]
        assert len(state) <= 5


# -- with the tiny models ------------------------------------------------------------------------------------------


def write(problems, seeds, **changes):
    return CGMH(steps=12, top=8, longest=10, **changes)(problems, tiny_lm(reverse=True), seeds)


def test_every_row_has_a_finished_text_with_all_its_words():
    problems = small_problems(tiny_lm())
    texts = write(problems, [1, 2, 3, 4])
    assert len(texts) == 4
    for row, text in enumerate(texts):
        words = problems.examples[row // 2].words
        assert met(text, words) == list(words)
        assert text.endswith(".")


def test_the_same_seed_gives_the_same_text_and_a_batch_is_its_rows_alone():
    batch = write(small_problems(tiny_lm()), [5, 6, 5, 6])
    assert write(small_problems(tiny_lm()), [5, 6, 5, 6]) == batch
    alone = [write(small_problems(tiny_lm(), examples=(i,)), [seed])[0] for i in (0, 1) for seed in (5, 6)]
    assert alone == batch
    assert len(set(batch)) > 2


def test_it_is_called_as_the_decoder_is():
    batch = [examples.lexical(["dog", "river"]), examples.lexical(["water"])]
    recipe = preset("lexical", "fast").with_(samples=2)
    found = Baseline(CGMH(steps=3, top=4))(recipe, tiny_lm(), tiny_lm(reverse=True), batch)
    assert [len(one.samples) for one in found] == [2, 2]
    assert all(met(s.text, e.words) == list(e.words) for one, e in zip(found, batch, strict=True) for s in one.samples)


def test_it_writes_without_a_right_to_left_model_and_with_the_released_rule():
    texts = CGMH(steps=5, top=4, longest=8, heuristic=RELEASED)(small_problems(tiny_lm()), None, [1, 2])
    assert all(text.endswith(".") for text in texts)


def test_more_words_than_tokens_are_refused():
    with pytest.raises(ColdError, match="raise longest"):
        CGMH(longest=1)(small_problems(tiny_lm()), None, [1, 2])


def test_the_likeliest_text_of_seven_words_is_given_out_before_likelier_short_ones():
    world = sentences_of(small_problems(tiny_lm()), None, None, 2, 4)
    ids = [tuple(world.story.lm.encode_after(" " + text)) for text in ("a cat", "a b c d e f g h", "a b c d e f g")]
    assert best_text(world, 0, dict(zip(ids, (-1.0, -9.0, -5.0), strict=True))) == "a b c d e f g."
    assert best_text(world, 0, {ids[0]: -3.0}) == "a cat."


# -- what the models propose ---------------------------------------------------------------------------------------


def test_the_next_token_behind_texts_of_any_length_is_read_as_one_by_one():
    lm = tiny_lm()
    prefix = Prefix.of(lm, [[0, 5, 6], [0, 7]])
    texts = [[3, 4, 9], []]
    wanted = torch.stack([Prefix.of(lm, [[0, 5, 6, 3, 4, 9]]).logits[0], Prefix.of(lm, [[0, 7]]).logits[0]])
    torch.testing.assert_close(next_logits(prefix, texts), wanted, atol=1e-4, rtol=1e-4)


def test_texts_with_a_common_beginning_score_as_one_by_one():
    world = sentences_of(small_problems(tiny_lm()), None, None, 2, 4)
    rows, states = [0, 0, 0, 1], [(5, 6, 7), (5, 6, 8, 9), (5, 6, 7, -1), (4, -2)]
    alone = [world.score([row], [state])[0] for row, state in zip(rows, states, strict=True)]
    assert world.score(rows, states) == pytest.approx(alone, abs=1e-4)


@pytest.mark.parametrize("room", [score.ON_CPU, 1], ids=["together", "one by one"])
@pytest.mark.parametrize("arch", ["llama", "gemma"])
def test_a_family_that_differs_in_one_token_scores_as_its_members_do(arch, room, monkeypatch):
    monkeypatch.setattr(score, "ON_CPU", room)
    world = sentences_of(small_problems(tiny_lm(arch=arch)), None, None, 4, 4)
    (glued,) = tiny_lm().encode("s")
    rows = [0, 1, 3]
    asked = [Fill((5, 6), (7, 8, 9), (-1, 10)), Fill((), (7, 300), ()), Fill((-2,), (glued, 11), (-1,))]
    found = world.fill(rows, asked)
    for row, (left, tokens, right), scores in zip(rows, asked, found, strict=True):
        alone = [world.score([row], [(*left, token, *right)])[0] for token in tokens]
        assert scores == pytest.approx(alone, abs=1e-3)
    assert found[2][0] == -float("inf")


def test_nothing_sticks_to_a_word_that_must_appear():
    world = sentences_of(small_problems(tiny_lm()), None, None, 2, 500)
    (ending,), (apart,) = tiny_lm().encode("s"), word_ids(tiny_lm(), "the")
    (behind,), (elsewhere,) = world.near([0], [Around((-1,), ())]), world.near([0], [Around((apart,), ())])
    assert behind.log_probs[ending] == -float("inf")
    assert ending not in behind.best
    assert elsewhere.log_probs[ending] > -float("inf")
    assert world.score([0, 0], [(-1, ending), (apart, ending)])[0] == -float("inf")
    assert world.score([0, 0], [(-1, apart), (apart, ending)])[1] > -float("inf")


def test_the_product_takes_the_left_from_one_model_and_the_right_from_the_other():
    lm, back = tiny_lm(), tiny_lm(reverse=True)
    problems = small_problems(lm)
    proposer = Product(problems.story, back)
    said = proposer.logits([Gap(1, [5, 6], [7, 8, 9])])[0]
    right = [back.separator, *problems.story.right_ids[1][::-1], 9, 8, 7]
    forward = Prefix.of(lm, [[*problems.story.left_ids[1], 5, 6]]).logits[0].log_softmax(0)
    backward = Prefix.of(back, [right]).logits[0].log_softmax(0)
    torch.testing.assert_close(said, forward + backward, atol=1e-4, rtol=1e-4)
    text, before = [5, 6, 7], Prefix.of(back, [right[:-3]])
    wanted = log_likelihood(problems.story.prefix.select([1]), [text]) + log_likelihood(before, [text[::-1]])
    torch.testing.assert_close(proposer.total([1], [text]), wanted, atol=1e-4, rtol=1e-4)


def test_candidates_are_the_best_that_may_be_written_and_a_word_is_spelled_in_its_tokens():
    world = sentences_of(small_problems(tiny_lm()), None, None, 2, 5)
    (near,) = world.near([1], [Around((-1,), ())])
    assert len(near.best) == 5
    assert world.fit[list(near.best)].all()
    assert near.log_probs.exp().sum() == pytest.approx(1.0)
    assert near.log_probs[tiny_lm().separator] == -float("inf")
    assert world.text(1, (-1, -2)) == "water door."
