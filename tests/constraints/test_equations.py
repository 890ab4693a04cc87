"""Each equation of section 3 on an example worked out by hand, in a vocabulary of three tokens.

Probabilities are powers of 1/2, so logarithms are whole numbers of bits: (1/2, 1/4, 1/4) is (-1, -2, -2) bits.
The language model is a bigram: its embedding is the identity and its logits are log P, so that a soft token q_1
is followed by the logits sum_v q_1(v) log P(. | v).
"""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from cold.constraints import (
    At,
    Constraint,
    Count,
    Ends,
    Energy,
    Fluency,
    Function,
    Future,
    Keywords,
    Meaning,
    Similarity,
    mean,
    total,
)  # fmt: skip
from cold.errors import ColdError
from cold.lm import Context, LanguageModel
from cold.lm.candidates import Candidates
from cold.lm.context import Reader, Reading
from cold.sampling import Langevin, run
from cold.sampling.noise import Noise
from cold.sampling.schedules import constant
from cold.soft import SoftSequence

BIT = math.log(2)
#           next: 0     1     2
BIGRAM = [[1 / 4, 1 / 2, 1 / 4],  # after 0, the separator
          [1 / 4, 1 / 4, 1 / 2],  # after 1
          [1 / 2, 1 / 4, 1 / 4]]  # after 2  # fmt: skip


class Bigram(nn.Module):
    """A causal LM in the eyes of LanguageModel: logits = embeds @ log P. Of its cache only the length matters."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(torch.eye(3))
        self.head = nn.Linear(3, 3, bias=False)
        self.head.weight.data = torch.tensor(BIGRAM).log().T.contiguous()
        self.config = SimpleNamespace(get_text_config=lambda: SimpleNamespace(max_position_embeddings=64))

    def get_input_embeddings(self) -> nn.Embedding:
        return self.embedding

    def get_output_embeddings(self) -> nn.Linear:
        return self.head

    def forward(self, inputs_embeds, past_key_values, attention_mask, position_ids, use_cache):
        past_key_values.update(inputs_embeds[:, None].detach(), inputs_embeds[:, None].detach(), 0)
        return SimpleNamespace(logits=self.head(inputs_embeds))


FORWARD = LanguageModel(Bigram(), name="bigram")
BACKWARD = LanguageModel(Bigram(), name="bigram-reverse", reverse=True)
START = Context(FORWARD, left=[[0]])  # nothing but the separator on the left

Q1, Q2 = [1 / 4, 1 / 4, 1 / 2], [1 / 2, 1 / 4, 1 / 4]


def soft(*rows: list[list[float]]) -> Tensor:
    """Logits of the given token distributions, moved by 3: a softmax does not see that, a missing one would."""
    return torch.tensor(rows).log() + 3.0


def scores(constraint: Constraint, y: Tensor) -> list[float]:
    """In bits."""
    bound = (1.0 * constraint).bind(y.shape[0], y.shape[1])
    return (bound(y, bound.start(y), Noise(range(y.shape[0]), 0)).scores[0] / BIT).tolist()


def gradient(constraint: Constraint, y: Tensor) -> Tensor:
    """Of the score in nats."""
    bound = (1.0 * constraint).bind(y.shape[0], y.shape[1])
    y = y.clone().requires_grad_(True)
    (grad,) = torch.autograd.grad(bound(y, bound.start(y), Noise(range(y.shape[0]), 0)).scores[0].sum(), y)
    return grad


# -- Equation 3: fluency ----------------------------------------------------------------------------------------
#
# f = sum_t sum_v p(v | y_<t) log q_t(v) for y = (Q1, Q2) after the separator.
#   t = 1: p = P(. | 0) = (1/4, 1/2, 1/4), log Q1 = (-2, -2, -1):    1/4 * -2 + 1/2 * -2 + 1/4 * -1 = -1.75
#   t = 2: logits sum_v Q1(v) log P(. | v) = (-1.5, -1.75, -1.75):
#            0: 1/4 * -2 + 1/4 * -2 + 1/2 * -1,  1: 1/4 * -1 + 1/4 * -2 + 1/2 * -2,  2: 1/4 * -2 + 1/4 * -1 + 1/2 * -2
#          p = (2^0.25, 1, 1) / (2^0.25 + 2), log Q2 = (-1, -2, -2):  -p(0) - 2 (1 - p(0)) = p(0) - 2

P2 = 2**0.25 / (2**0.25 + 2)  # 0.372885: what the bigram expects of token 0 after Q1


def test_fluency_is_the_sum_over_tokens_of_the_expected_log_probability():
    assert scores(Fluency(START), soft([Q1, Q2])) == pytest.approx([-1.75 + P2 - 2])


def test_fluency_as_a_mean_is_the_sum_over_the_number_of_tokens():
    assert scores(Fluency(START, reduction=mean), soft([Q1, Q2])) == pytest.approx([(-1.75 + P2 - 2) / 2])


def test_fluency_depends_on_the_left_text():
    # after 2 the first token is expected as P(. | 2) = (1/2, 1/4, 1/4): 1/2 * -2 + 1/4 * -2 + 1/4 * -1 = -1.75; after
    # 1 as (1/4, 1/4, 1/2): -0.5 - 0.5 - 0.5 = -1.5. The second token does not see it in a bigram.
    context = Context(FORWARD, left=[[0, 2], [0, 1]])
    expected = [-1.75 + P2 - 2, -1.5 + P2 - 2]
    assert scores(Fluency(context), soft([Q1, Q2], [Q1, Q2])) == pytest.approx(expected)


def test_a_temperature_sharpens_what_the_lm_reads_and_nothing_else():
    # at 1/2 the LM reads Q1^2 / sum = (1/6, 1/6, 2/3): logits (-8/6, -11/6, -11/6), p(0) = 2^0.5 / (2^0.5 + 2);
    # the log-probabilities are still those of Q1 and Q2
    sharp = 2**0.5 / (2**0.5 + 2)
    context = Context(FORWARD, left=[[0]], temperature=0.5)
    assert scores(Fluency(context), soft([Q1, Q2])) == pytest.approx([-1.75 + sharp - 2])


def test_right_to_left_fluency_is_that_of_the_mirrored_text():
    # the reverse bigram reads the separator, then y_2, then predicts y_1
    mirrored = soft([Q2, Q1])
    assert scores(Fluency(Context(BACKWARD)), mirrored) == pytest.approx([-1.75 + P2 - 2])
    # with 2 on the right, y_2 is expected as P(. | 2); with log Q1 = (-2, -2, -1) that is -1.75 as well, and with
    # (1/4, 1/4, 1/2) after 1 it is -1.5
    context = Context(BACKWARD, right=[[2], [1]])
    expected = [-1.75 + P2 - 2, -1.5 + P2 - 2]
    assert scores(Fluency(context), soft([Q2, Q1], [Q2, Q1])) == pytest.approx(expected)


def test_a_position_that_nothing_precedes_is_not_scored():
    # without a separator only t = 2 remains left to right, and only t = 1 right to left
    left = Context(FORWARD, left=[[]], separator=False)
    assert scores(Fluency(left), soft([Q1, Q2])) == pytest.approx([P2 - 2])
    assert scores(Fluency(left, reduction=mean), soft([Q1, Q2])) == pytest.approx([P2 - 2])
    right = Context(BACKWARD, separator=False)
    assert scores(Fluency(right), soft([Q2, Q1])) == pytest.approx([P2 - 2])


def test_the_detached_gradient_is_prediction_minus_distribution():
    # d/dy sum_v p(v) log softmax(y)(v) = p - q. Position 1: (1/4, 1/2, 1/4) - Q1; position 2: (p0, ..) - Q2
    rest = (1 - P2) / 2
    expected = torch.tensor([[[0, 1 / 4, -1 / 4], [P2 - 1 / 2, rest - 1 / 4, rest - 1 / 4]]])
    assert torch.allclose(gradient(Fluency(START, detach=True), soft([Q1, Q2])), expected, atol=1e-6)


def test_the_full_gradient_adds_what_a_token_does_to_the_next_prediction():
    # Position 1 moves f_2 through the prediction. In bits, with f_2 = p0 - 2:
    #   df_2/dlogit_w = p(w) (log Q2(w) - f_2):    c = p0 (1 - p0) for w = 0, -c / 2 for 1 and for 2
    #   dlogit_w/dQ1(v) = log P(w | v):            g = (-2c + c/2 + c, -2c + c + c/2, -c + c + c) = (-c/2, -c/2, c)
    #   softmax: Q1(u) (g_u - sum_v Q1(v) g_v), the sum being c/4:   (-3c/16, -3c/16, 3c/8)
    # Each logarithm of base 2 is worth ln 2 nats, and there are two of them.
    c = P2 * (1 - P2) * BIT**2
    extra = torch.tensor([[[-3 * c / 16, -3 * c / 16, 3 * c / 8], [0, 0, 0]]])
    y = soft([Q1, Q2])
    difference = gradient(Fluency(START), y) - gradient(Fluency(START, detach=True), y)
    assert torch.allclose(difference, extra, atol=1e-6)


def test_a_detached_term_stays_detached_when_another_differentiates_the_same_reading():
    # without a share in Future's gradient, fluency's own is prediction minus distribution, as above
    context = Context(FORWARD, left=[[0]], right=[[1]])
    bound = (1.0 * Fluency(context, detach=True) + 1.0 * Future(context)).bind(1, 2)
    y = soft([Q1, Q2]).requires_grad_(True)
    fluency, future = bound(y, bound.start(y), Noise([0], 0)).scores
    (pull,) = torch.autograd.grad(fluency.sum(), y, retain_graph=True)
    assert torch.allclose(pull, gradient(Fluency(START, detach=True), soft([Q1, Q2])), atol=1e-6)
    assert torch.autograd.grad(future.sum(), y)[0].abs().sum() > 0


@pytest.mark.parametrize(("detach", "graph"), [(True, False), (False, True)])
def test_the_lm_keeps_a_graph_only_for_terms_that_differentiate_it(monkeypatch, detach, graph):
    bound = (1.0 * Fluency(START, detach=detach)).bind(1, 2)
    kept = []
    read = Reader._states
    monkeypatch.setattr(Reader, "_states", lambda *args: kept.append(torch.is_grad_enabled()) or read(*args))
    y = soft([Q1, Q2]).requires_grad_(True)
    bound(y, bound.start(y), Noise([0], 0))
    assert kept == [graph]


def test_detaching_changes_no_score():
    assert scores(Fluency(START, detach=True), soft([Q1, Q2])) == scores(Fluency(START), soft([Q1, Q2]))


def test_within_the_candidate_set_the_prediction_is_renormalized():
    # t = 1: the best token of (1/4, 1/2, 1/4) is 1, and 0 is always allowed: p = (1/3, 2/3, 0), -2/3 - 4/3 = -2
    # t = 2: the best token is 0 itself: p = (1, 0, 0), -1
    context = Context(FORWARD, left=[[0]], top_k=1, widen=[[0]])
    assert scores(Fluency(context, within=True), soft([Q1, Q2])) == pytest.approx([-3.0])
    assert scores(Fluency(context), soft([Q1, Q2])) == pytest.approx([-1.75 + P2 - 2])


def test_within_needs_a_candidate_set():
    with pytest.raises(ColdError, match="top_k = 0"):
        Fluency(START, within=True)


def reading(predicted=None, after=None, after_ids=None, after_mask=None, candidates=None) -> Reading:
    """What a language model might have said, as probabilities."""
    return Reading(
        predicted=torch.tensor(predicted or [[[1.0]]]).log(),
        covers=slice(None),
        after=torch.tensor(after or [[[1.0]]]).log(),
        after_ids=torch.tensor(after_ids or [[0]]),
        after_mask=torch.tensor(after_mask or [[1]]),
        candidates=None if candidates is None else Candidates(*map(torch.tensor, candidates)),
    )


def test_without_echo_a_token_expected_one_position_later_is_pushed_away():
    # The logits of t = 1 lose 1e4 times the prediction of t = 2, here (the rest, 1e-4 ln 2, 2e-4 ln 2): token 0 is
    # ruled out, tokens 1 and 2 lose a factor 2 and 4: (1/2, 1/4, 1/4) becomes (0, 1/8, 1/16) / (3/16) = (0, 2/3, 1/3).
    # With log q_1 = (-2, -1, -2): -2/3 - 2/3 = -4/3. The last position is as it was: nothing comes after it.
    later = [1 - 3e-4 * BIT, 1e-4 * BIT, 2e-4 * BIT]
    said = {START: reading(predicted=[[[1 / 2, 1 / 4, 1 / 4], later]])}
    y = SoftSequence(soft([[1 / 4, 1 / 2, 1 / 4], [1 / 2, 1 / 4, 1 / 4]]))
    score = Fluency(START, no_echo=True).score(y, said, Noise([0], 0))
    assert float(score) / BIT == pytest.approx(-4 / 3 - later[0] - 2 * (1 - later[0]), rel=1e-5)


# -- Equation 4: future -----------------------------------------------------------------------------------------
#
# f = sum_k log p(x_k | y, x_<k). After y = (Q2, Q1) the bigram expects (P2, rest, rest), as above.


def test_future_is_the_log_probability_of_the_right_text_after_the_soft_one():
    # right text (1, 2): log rest + log P(2 | 1) = log rest - 1; right text (0): log P2, its padding counts nothing
    context = Context(FORWARD, left=[[0]], right=[[1, 2], [0]])
    y = soft([Q2, Q1], [Q2, Q1])
    first = math.log2((1 - P2) / 2) - 1
    assert scores(Future(context), y) == pytest.approx([first, math.log2(P2)])
    assert scores(Future(context, reduction=mean), y) == pytest.approx([first / 2, math.log2(P2)])


def test_future_reads_at_the_temperature_of_its_context():
    context = Context(FORWARD, left=[[0]], right=[[0]], temperature=0.5)
    assert scores(Future(context), soft([Q2, Q1])) == pytest.approx([math.log2(2**0.5 / (2**0.5 + 2))])


def test_future_sums_and_averages_over_each_rows_own_length():
    # row 0 has three tokens of probability 1/2, 1/4, 1/8; row 1 one of 1/4 and two of padding
    said = reading(
        after=[[[1 / 2, 1 / 2], [1 / 4, 3 / 4], [7 / 8, 1 / 8]], [[3 / 4, 1 / 4], [1 / 2, 1 / 2], [1 / 2, 1 / 2]]],
        after_ids=[[0, 0, 1], [1, 0, 0]],
        after_mask=[[1, 1, 1], [1, 0, 0]],
    )
    context = Context(FORWARD, left=[[0]], right=[[0, 0, 1], [1]])
    y, random = SoftSequence(torch.zeros(2, 1, 3)), Noise([0, 1], 0)
    assert (Future(context).score(y, {context: said}, random) / BIT).tolist() == pytest.approx([-6, -2])
    averaged = Future(context, reduction=mean).score(y, {context: said}, random) / BIT
    assert averaged.tolist() == pytest.approx([-2, -2])


def test_backwards_future_predicts_the_left_text():
    # the reverse bigram reads y_2 = Q2, y_1 = Q1, then the left text from its end: 2 after Q1, then 1 after 2
    context = Context(BACKWARD, left=[[1, 2]])
    assert scores(Future(context), soft([Q1, Q2])) == pytest.approx([math.log2((1 - P2) / 2) - 2])


def test_future_without_a_text_to_predict_is_refused():
    with pytest.raises(ColdError, match="predicts the right text of its context, which is empty"):
        Future(START)
    with pytest.raises(ColdError, match="predicts the left text"):
        Future(Context(BACKWARD, right=[[1]]))


# -- Equation 5: n-gram similarity ------------------------------------------------------------------------------
#
# Three positions and the target (0, 2, 1); C_ij = log q_i(target_j), in bits:
#                     j: 0   2   1
#   q_1 = (1/2,1/4,1/4) -1  -2  -2
#   q_2 = (1/4,1/4,1/2) -2  -1  -2
#   q_3 = (1/4,1/2,1/4) -2  -2  -1
# n = 1: every target has S = (-1, -2, -2), w = (1/2, 1/4, 1/4) / 1, sum w S = -1.5
# n = 2: S_11 = (C_11 + C_22) / 2 = -1, S_21 = (C_21 + C_32) / 2 = -2, so w = (1/2, 1/4) / (3/4) and sum w S = -4/3;
#        S_12 = (C_12 + C_23) / 2 = -2, S_22 = -1 gives the same
# n = 3: one place, S = (-1 - 1 - 1) / 3 = -1

TARGET = [0, 2, 1]
IN_ORDER = [[1 / 2, 1 / 4, 1 / 4], [1 / 4, 1 / 4, 1 / 2], [1 / 4, 1 / 2, 1 / 4]]


@pytest.mark.parametrize(
    ("n", "expected"), [((1,), -1.5), ((2,), -4 / 3), ((3,), -1), ((2, 3), -7 / 6), ((1, 2, 3), -23 / 18)]
)
def test_similarity_matches_each_ngram_at_a_softly_chosen_place(n, expected):
    assert scores(Similarity([TARGET], n=n), soft(IN_ORDER)) == pytest.approx([expected])


def test_similarity_weighs_places_by_their_probability():
    # q_1 = (1/2, 1/4, 1/4), q_2 = (1/8, 5/8, 1/4). Token 0: S = (-1, -3), w = (4/5, 1/5), -1.4;
    # token 2: S = (-2, -2), -2. Mean -1.7. Token 0 is a token like any other: were it padding, the mean would be -1.
    y = soft([[1 / 2, 1 / 4, 1 / 4], [1 / 8, 5 / 8, 1 / 4]])
    assert scores(Similarity([[0, 2]]), y) == pytest.approx([-1.7])


def test_a_shorter_target_neither_sees_the_padding_of_a_longer_one_nor_its_orders():
    # row 1: only n = 2 fits (0, 2), one bigram with S = (-1, -2): -4/3, not half of it;
    # row 2: (1, 0) has C_1j = (-2, -1), C_2j = (-2, -2), C_3j = (-1, -2), so S = ((-2 - 2) / 2, (-2 - 2) / 2): -2
    term = Similarity([TARGET, [0, 2], [1, 0]], n=(2, 3))
    assert scores(term, soft(IN_ORDER, IN_ORDER, IN_ORDER)) == pytest.approx([-7 / 6, -4 / 3, -2])


def test_orders_longer_than_the_sequence_are_left_out():
    # of the first two positions only n = 2 is left: S_11 = -1 and S_12 = (C_12 + C_23) / 2 = -2, mean -1.5
    assert scores(Similarity([TARGET], n=(2, 3)), soft(IN_ORDER[:2])) == pytest.approx([-1.5])


def test_a_target_for_which_no_order_is_left_is_refused_at_once():
    with pytest.raises(ColdError, match=r"no n-gram order of \[2, 3\] fits a target of 1 tokens"):
        Similarity([[0, 1], [2]], n=(2, 3))


def test_a_sequence_for_which_no_order_is_left_is_refused_when_bound():
    term = 1.0 * Similarity([TARGET], n=(2, 3))
    with pytest.raises(ColdError, match=r"no n-gram order of \[2, 3\] fits .* in a sequence of 1"):
        term.bind(rows=1, length=1)


@pytest.mark.parametrize("n", [(), (0,), (2, -1)])
def test_orders_are_whole_numbers_from_one_up(n):
    with pytest.raises(ColdError, match="n-gram orders"):
        Similarity([TARGET], n=n)


def test_an_empty_target_is_refused():
    with pytest.raises(ColdError, match="target 1 is empty"):
        Similarity([[1], []])


def test_at_the_floor_the_score_stands_still():
    # log 1/4 = -2 bits lies under a floor of -1.5 bits: the score is the floor and the slope is 0;
    # log 1/2 = -1 lies above it
    floor = Similarity([[1], [0]], floor=-1.5 * BIT)
    y = soft([[1 / 2, 1 / 4, 1 / 4]], [[1 / 2, 1 / 4, 1 / 4]])
    assert scores(floor, y) == pytest.approx([-1.5, -1])
    slope = gradient(floor, y)
    assert torch.equal(slope[0], torch.zeros(1, 3))
    assert torch.allclose(slope[1], torch.tensor([[1 / 2, -1 / 4, -1 / 4]]))  # one-hot minus q
    assert gradient(Similarity([[1], [0]]), y)[0].abs().sum() > 0


class Gumbel:
    """Two places, one n-gram: 2 bits for the second place."""

    def gumbel(self, stream: str, shape: tuple[int, ...]) -> Tensor:
        assert (stream, shape) == ("similarity.1", (2, 1))
        return torch.tensor([[[0.0], [2 * BIT]]])


def test_gumbel_noise_moves_the_choice_of_the_place_but_not_the_score_there():
    # S = (-1, -3): with 2 bits more for the second place both are equally good, and -1/2 - 3/2 = -2; without, -1.4
    y = SoftSequence(soft([[1 / 2, 1 / 4, 1 / 4], [1 / 8, 5 / 8, 1 / 4]]))
    noisy = Similarity([[0]], gumbel=True).score(y, {}, Gumbel())
    assert float(noisy) / BIT == pytest.approx(-2)
    assert scores(Similarity([[0]]), y.logits) == pytest.approx([-1.4])


def test_within_a_candidate_set_the_matched_distribution_is_renormalized():
    # (1/2, 1/4, 1/4) cut to {0, 1} is (2/3, 1/3, 0); the other row keeps all
    ids, allowed = [[[0, 1, 1]], [[0, 1, 2]]], [[[True, True, False]], [[True, True, True]]]
    said = {START: reading(candidates=(ids, allowed))}
    y = SoftSequence(soft([[1 / 2, 1 / 4, 1 / 4]], [[1 / 2, 1 / 4, 1 / 4]]))
    score = Similarity([[0]], within=START).score(y, said, Noise([0, 1], 0))
    assert (score / BIT).tolist() == pytest.approx([math.log2(2 / 3), -1])


# -- keywords ---------------------------------------------------------------------------------------------------


def test_the_pieces_of_a_keyword_are_kept_together():
    # the word (0, 2) at positions 1-2: (-1 - 1) / 2, at 2-3: (-2 - 2) / 2; w = (2/3, 1/3): -4/3
    assert scores(Keywords([[[0, 2]]]), soft(IN_ORDER)) == pytest.approx([-4 / 3])
    # apart: 0 first, 2 last. At 1-2: (-1 - 2) / 2, at 2-3: (-2 - 1) / 2: -1.5, while single tokens match as before
    apart = soft([IN_ORDER[0], IN_ORDER[2], IN_ORDER[1]])
    assert scores(Keywords([[[0, 2]]]), apart) == pytest.approx([-1.5])
    assert scores(Similarity([[0, 2]]), apart) == pytest.approx(scores(Similarity([[0, 2]]), soft(IN_ORDER)))


def test_sharpness_looks_harder_at_the_best_place():
    # softmax(2 S) with S = (-1, -2): (1/4, 1/16) / (5/16) = (4/5, 1/5): -1.2
    assert scores(Keywords([[[0, 2]]], sharpness=2.0), soft(IN_ORDER)) == pytest.approx([-1.2])
    assert scores(Keywords([[[0, 2]]], sharpness=1000.0), soft(IN_ORDER)) == pytest.approx([-1.0])


def test_several_keywords_are_averaged_and_rows_may_have_different_ones():
    # (0, 2) gives -4/3, (1) gives -1.5
    term = Keywords([[[0, 2], [1]], [[1]]])
    assert scores(term, soft(IN_ORDER, IN_ORDER)) == pytest.approx([(-4 / 3 - 1.5) / 2, -1.5])


def test_a_word_of_several_forms_is_matched_in_any_of_them():
    # (0, 2): S = (-1, -2) at its two places; (1): (-2, -2, -1). w ~ 2^S over all five: -2.5 / 1.75
    term = Keywords([[[[0, 2], [1]]], [[[1]]]])
    assert scores(term, soft(IN_ORDER, IN_ORDER)) == pytest.approx([-10 / 7, -1.5])
    assert scores(Keywords([[[[1], [1]]]]), soft(IN_ORDER)) == pytest.approx([-1.5])
    assert scores(Keywords([[[[0, 2], [0, 1, 2, 0]]]]), soft(IN_ORDER)) == pytest.approx([-4 / 3])  # one has no room


def test_for_words_of_one_token_keywords_are_unigram_similarity():
    y = torch.randn(2, 5, 11, generator=torch.Generator().manual_seed(0))
    words, targets = [[[3], [0], [7]], [[10]]], [[3, 0, 7], [10]]
    assert scores(Keywords(words), y) == pytest.approx(scores(Similarity(targets), y), rel=1e-5)


def test_a_keyword_longer_than_the_sequence_is_refused_with_the_length_it_needs():
    with pytest.raises(ColdError, match="becomes 3 tokens but the sequence has 2: raise the length to at least 3"):
        (1.0 * Keywords([[[1]], [[0, 1, 2]]])).bind(rows=2, length=2)


def test_a_keyword_without_tokens_is_refused():
    with pytest.raises(ColdError, match="a keyword is empty"):
        Keywords([[[1], []]])


@pytest.mark.parametrize(
    "term", [Keywords([[[1]], [[2]]]), Similarity([[1], [2]]), Fluency(Context(FORWARD, left=[[1], [2]]))]
)
def test_rows_are_a_multiple_of_the_examples(term):
    with pytest.raises(ColdError, match="2 examples, which does not divide 3 rows"):
        (1.0 * term).bind(rows=3, length=2)


# -- Equation 1: the energy -------------------------------------------------------------------------------------

FIRST = Function(lambda y: y.logits[:, 0, 0], name="first")
SECOND = Function(lambda y: y.logits[:, 0, 1].square(), name="second")
Y = torch.tensor([[[2.0, 3.0]], [[-1.0, 5.0]]])  # first: 2 and -1; second: 9 and 25


def energies(energy: Energy) -> list[float]:
    return energy.bind(2, 1)(Y, (), Noise([0, 1], 0)).energy.tolist()


def test_the_energy_is_minus_the_weighted_sum_of_the_scores():
    # -(0.5 * 2 + 2 * 9) = -19, -(0.5 * -1 + 2 * 25) = -49.5
    energy = 0.5 * FIRST + 2.0 * SECOND
    assert energies(energy) == pytest.approx([-19, -49.5])
    evaluation = energy.bind(2, 1)(Y, (), Noise([0, 1], 0))
    assert evaluation.scores.tolist() == [[2, -1], [9, 25]]  # unweighted, in order
    assert energy.names == ["first", "second"]


@pytest.mark.parametrize(
    ("energy", "weights"),
    [
        (FIRST * 0.5, [0.5]),
        (FIRST + SECOND, [1, 1]),
        (0.5 * FIRST + SECOND, [0.5, 1]),
        (FIRST + 0.5 * SECOND, [1, 0.5]),
        (3 * (0.5 * FIRST + 2 * SECOND), [1.5, 6]),
        ((0.5 * FIRST + 2 * SECOND) * 3, [1.5, 6]),
        (0 * FIRST, [0]),
    ],
)
def test_constraints_and_energies_add_and_scale_as_on_paper(energy, weights):
    assert isinstance(energy, Energy)
    assert energy.weights == weights


def test_a_context_shared_by_two_terms_is_read_once(monkeypatch):
    context = Context(FORWARD, left=[[0]], right=[[1]])
    bound = (0.5 * Fluency(context) + 0.5 * Future(context)).bind(1, 2)
    calls = []
    read = Reader._states
    monkeypatch.setattr(Reader, "_states", lambda *args: calls.append(1) or read(*args))
    y = soft([Q2, Q1])
    bound(y, bound.start(y), Noise([0], 0))
    assert len(calls) == 1


@pytest.mark.parametrize("weight", [-0.1, math.nan, math.inf])
def test_a_weight_below_zero_or_not_finite_is_refused(weight):
    with pytest.raises(ColdError, match="the weight of 'first' is"):
        weight * FIRST


def test_two_terms_of_one_name_are_refused():
    with pytest.raises(ColdError, match="two terms are called 'fluency'"):
        0.5 * Fluency(START) + 0.5 * Fluency(Context(BACKWARD))


def test_an_energy_without_terms_is_refused():
    with pytest.raises(ColdError, match="has no terms"):
        Energy(()).bind(1, 1)


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (torch.zeros(2, 1), r"\[2, 1\] for 2 rows"),  # would broadcast against the other terms
        (torch.zeros(()), r"\[\] for 2 rows"),
        (torch.zeros(3), r"\[3\] for 2 rows"),
        (0.0, "float for 2 rows"),
        (None, "NoneType for 2 rows"),
    ],
)
def test_a_function_that_does_not_return_one_number_per_row_is_named(returned, said):
    energy = 1.0 * FIRST + 1.0 * Function(lambda y: returned, name="mine")
    with pytest.raises(ColdError, match=f"'mine' returned {said}"):
        energies(energy)


def test_a_function_is_called_by_its_own_name():
    def cheerful(y: SoftSequence) -> Tensor:
        return y.logits[:, 0, 0]

    assert Function(cheerful).name == "cheerful"


def test_a_term_that_is_not_a_number_stops_the_run_under_its_name():
    lost = Function(lambda y: (y.logits[:, 0, 1] - 3).log(), name="lost")  # log 0 in row 0, log 2 in row 1
    energy = (1.0 * FIRST + 0.1 * lost).bind(2, 1)
    with pytest.raises(ColdError, match=r"term 'lost' is -inf in row 0 at step 0"):
        list(run(Langevin(0.1, constant(0.0)), Y, energy, [0, 1], steps=3))


def test_a_sum_and_a_mean_leave_masked_tokens_out():
    values, mask = torch.tensor([[1.0, 2.0, 6.0], [4.0, 5.0, 9.0]]), torch.tensor([[1, 1, 1], [1, 0, 0]])
    assert total(values, mask).tolist() == [9, 4]
    assert mean(values, mask).tolist() == [3, 4]


# -- counts, places, ends ------------------------------------------------------------------------------------------

# Token 1 with probability 1/4, 1/2 and 1/4 at three positions.
THREE = [[1 / 2, 1 / 4, 1 / 4], [1 / 4, 1 / 2, 1 / 4], [1 / 4, 1 / 4, 1 / 2]]
ABSENT = 3 / 4 * 1 / 2 * 3 / 4  # 9/32
ONCE = 1 / 4 * 1 / 2 * 3 / 4 + 3 / 4 * 1 / 2 * 3 / 4 + 3 / 4 * 1 / 2 * 1 / 4  # 15/32


def score_of(constraint: Constraint, *rows: list[list[float]]) -> list[float]:
    y = soft(*rows)
    return constraint.score(SoftSequence(y), {}, Noise([0] * len(rows), 0)).tolist()


@pytest.mark.parametrize(
    ("bounds", "probability"),
    [
        ({"at_most": 0}, ABSENT),
        ({"at_least": 1}, 1 - ABSENT),
        ({"at_least": 1, "at_most": 1}, ONCE),
        ({"at_least": 2}, 1 - ABSENT - ONCE),
        ({"at_least": 0, "at_most": 3}, 1.0),
    ],
)
def test_a_count_is_poisson_binomial(bounds, probability):
    assert score_of(Count([[1]], **bounds), THREE) == pytest.approx([math.log(probability)], abs=1e-6)


def test_a_second_time_adds_nothing_and_a_third_takes_away():
    often = [[[0.01, 0.98, 0.01]] * n + [[0.98, 0.01, 0.01]] * (3 - n) for n in range(4)]
    found = score_of(Count([[1]], at_least=1, at_most=2), *often)
    assert found[1] == pytest.approx(0, abs=0.05)
    assert found[2] == pytest.approx(0, abs=0.05)
    assert max(found[0], found[3]) < -2


def test_a_word_of_two_tokens_counts_where_both_stand():
    begins = [1 / 4 * 1 / 4, 1 / 2 * 1 / 2]  # token 1 then token 2, at the first and the second place
    assert score_of(Count([[1, 2]], at_most=0), THREE) == pytest.approx([sum(math.log(1 - p) for p in begins)])


def test_a_word_at_a_place():
    assert score_of(At([1]), THREE) == pytest.approx([math.log(1 / 4)])
    assert score_of(At([1, 2], place=-1), THREE) == pytest.approx([math.log(1 / 2)])  # 1/2 and 1/2, in the mean


def test_the_first_end_is_the_one_that_counts():
    # token 2 ends a sentence: 1/4, 1/4, 1/2
    first, second, third = 1 / 4, 3 / 4 * 1 / 4, 3 / 4 * 3 / 4 * 1 / 2
    assert score_of(Ends([2], 1, 1), THREE) == pytest.approx([math.log(first)], abs=1e-5)
    assert score_of(Ends([2], 2, 3), THREE) == pytest.approx([math.log(second + third)], abs=1e-5)
    assert score_of(Ends([2], 3, 9), THREE) == pytest.approx([math.log(third)], abs=1e-5)


def test_meaning_is_the_cosine_of_centred_means():
    # Embeddings are the identity: less their mean (1/3, 1/3, 1/3), the text (1/3, 1/3, 1/3) has none, and (1/2, 1/4,
    # 1/4) points where token 0 does.
    found = score_of(Meaning(FORWARD, [[0]]), [[1 / 2, 1 / 4, 1 / 4]], [[1 / 4, 1 / 2, 1 / 4]])
    assert found == pytest.approx([1.0, -0.5], abs=1e-5)


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: Count([[1]]), "term 'count' asks for nothing: give at_least, at_most or both"),
        (lambda: Count([[]], at_most=0), "term 'count': a word is missing or empty"),
        (lambda: Count([[1]], 2, 1), "at least 2 and at most 1 is no range"),
        (lambda: Ends([2], 3, 2), "from 3 to 2"),
        (lambda: Meaning(FORWARD, [[]]), "term 'meaning': a target is empty"),
        (lambda: (1.0 * At([1, 1], place=2)).bind(1, 3), "2 tokens at place 2 do not fit into 3"),
        (lambda: (1.0 * Count([[1]], at_least=4)).bind(1, 3), "asks for 4 words in 3 tokens"),
        (lambda: (1.0 * Ends([2], 4, 5)).bind(1, 3), "ends after 4 tokens, and there are 3"),
    ],
)
def test_what_cannot_be_is_one_clear_line(make, line):
    with pytest.raises(ColdError, match=line):
        make()
