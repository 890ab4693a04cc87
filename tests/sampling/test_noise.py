"""Randomness is a function of (row seed, step, position, token), and is as random as it has to be."""

import math

import pytest
import torch

from cold.sampling.noise import Noise, Rows, row_seed

ROWS, POSITIONS, TOKENS = 4, 10, 12_500
N = ROWS * POSITIONS * TOKENS  # half a million numbers
GOLDEN_NORMAL = [
    [[-0.916288, -1.792336, -0.314163], [1.303725, 2.695699, 0.248248]],
    [[-0.323193, 1.860644, 1.756441], [0.223271, -0.025152, -1.237281]],
]
GOLDEN_GUMBEL = [[[0.241166, -1.139568, -1.000138]], [[-1.024505, 0.115613, 0.255315]]]
GOLDEN_SEEDS = [159710685890680, 251676553536826, 29525392372941]
SURE = 5  # standard errors; the numbers are fixed, so this never fails by chance twice


@pytest.fixture(scope="module")
def normal() -> torch.Tensor:
    return Noise(range(ROWS), step=3).normal("langevin", (POSITIONS, TOKENS)).double()


def correlation(a: torch.Tensor, b: torch.Tensor) -> float:
    a, b = a.flatten() - a.mean(), b.flatten() - b.mean()
    return float((a * b).mean() / (a.square().mean() * b.square().mean()).sqrt())


def assert_unrelated(a: torch.Tensor, b: torch.Tensor) -> None:
    """Neither the numbers nor their sizes go together; the error of a correlation is 1 / sqrt(n)."""
    bound = SURE / math.sqrt(a.numel())
    assert abs(correlation(a, b)) < bound
    assert abs(correlation(a.square(), b.square())) < bound


def test_normal_numbers_have_the_moments_of_the_normal_law(normal):
    # standard errors of mean, variance, skewness and kurtosis: sqrt(1, 2, 6, 24 over n)
    moments = [float(normal.pow(k).mean()) for k in (1, 2, 3, 4)]
    assert moments[0] == pytest.approx(0, abs=SURE * math.sqrt(1 / N))
    assert moments[1] == pytest.approx(1, abs=SURE * math.sqrt(2 / N))
    assert moments[2] == pytest.approx(0, abs=SURE * math.sqrt(15 / N))  # var(x^3) = 15
    assert moments[3] == pytest.approx(3, abs=SURE * math.sqrt(96 / N))  # var(x^4) = 105 - 9


def test_normal_numbers_follow_the_normal_distribution_function(normal):
    points = torch.linspace(-4, 4, 41, dtype=torch.float64)
    below = torch.stack([(normal < point).double().mean() for point in points])
    assert (below - torch.special.ndtr(points)).abs().max() < 2.5 / math.sqrt(N)  # Kolmogorov: P(> 2.5) = 7e-6


def test_each_row_and_position_has_mean_zero_and_variance_one(normal):
    assert normal.mean(-1).abs().max() < SURE / math.sqrt(TOKENS)
    assert (normal.square().mean(-1) - 1).abs().max() < SURE * math.sqrt(2 / TOKENS)


@pytest.mark.parametrize("lag", [1, 2, 3, 4, 8, 16, 64, 256, 1024])
def test_neighbouring_tokens_are_unrelated(normal, lag):
    assert_unrelated(normal[..., lag:], normal[..., :-lag])


def test_the_two_numbers_of_one_draw_are_unrelated(normal):
    assert_unrelated(normal[..., 0::2], normal[..., 1::2])


@pytest.mark.parametrize("axis", [0, 1])
def test_neighbouring_rows_and_positions_are_unrelated(normal, axis):
    n = normal.shape[axis] - 1
    assert_unrelated(normal.narrow(axis, 0, n), normal.narrow(axis, 1, n))


def test_steps_and_streams_are_unrelated(normal):
    shape = (POSITIONS, TOKENS)
    assert_unrelated(normal, Noise(range(ROWS), step=4).normal("langevin", shape).double())
    assert_unrelated(normal, Noise(range(ROWS), step=3).normal("other", shape).double())


def test_gumbel_numbers_have_the_mean_and_variance_of_the_gumbel_law():
    draws = Noise(range(ROWS), step=0).gumbel("ngram.1", (POSITIONS, TOKENS)).double()
    # mean Euler's 0.5772, variance pi^2 / 6; var(x^2 about the mean) = (kurtosis 5.4 - 1) variance^2
    variance = math.pi**2 / 6
    assert float(draws.mean()) == pytest.approx(0.5772157, abs=SURE * math.sqrt(variance / N))
    assert float(draws.var()) == pytest.approx(variance, abs=SURE * variance * math.sqrt(4.4 / N))


def test_gumbel_numbers_choose_tokens_with_their_softmax_probabilities():
    # argmax(log p + Gumbel) is a draw from p: here p = (1/2, 3/8, 1/8)
    p = torch.tensor([0.5, 0.375, 0.125])
    draws = Noise(range(200), step=0).gumbel("pick", (500, 3)).add(p.log()).argmax(-1).flatten()
    shares = torch.bincount(draws, minlength=3) / draws.numel()
    assert torch.allclose(shares, p, atol=SURE * 0.5 / math.sqrt(draws.numel()))


def test_the_largest_hash_still_gives_a_finite_number():
    # The hash of (seed 29, step 53, position 0, token 3432) is all ones. As 24 bits plus a half it is no float,
    # rounds to 1, and -log(-log(1)) is infinite.
    gumbel = Noise([29], step=53).gumbel("ngram.1", (1, 3459))
    assert torch.isfinite(gumbel).all()
    assert float(gumbel[0, 0, 3432]) == pytest.approx(-math.log(-math.log1p(-(2.0**-24))), abs=1e-3)


def test_the_same_call_gives_the_same_numbers():
    for kind in ("normal", "gumbel"):
        first = getattr(Noise([7, 8], 5), kind)("langevin", (3, 11))
        again = getattr(Noise([7, 8], 5), kind)("langevin", (3, 11))
        assert torch.equal(first, again)


@pytest.mark.parametrize("kind", ["normal", "gumbel"])
def test_a_row_draws_the_same_in_every_batch(kind):
    batch = getattr(Noise([5, 9, 2**47, 9], 1), kind)("langevin", (3, 7))
    for row, seed in enumerate([5, 9, 2**47, 9]):
        assert torch.equal(batch[row], getattr(Noise([seed], 1), kind)("langevin", (3, 7))[0])
    assert not torch.equal(batch[0], batch[1])


@pytest.mark.parametrize("kind", ["normal", "gumbel"])
@pytest.mark.parametrize("tokens", [1, 2, 6, 7])  # an odd width cuts a pair in two
def test_a_longer_text_or_a_wider_vocabulary_only_adds_numbers(kind, tokens):
    wide = getattr(Noise([5, 9], 1), kind)("langevin", (6, 50))
    narrow = getattr(Noise([5, 9], 1), kind)("langevin", (4, tokens))
    assert torch.equal(narrow, wide[:, :4, :tokens])


def test_seed_step_position_and_stream_each_change_the_numbers():
    base = Noise([1], 2).normal("langevin", (2, 8))
    assert not torch.equal(base, Noise([2], 2).normal("langevin", (2, 8)))
    assert not torch.equal(base, Noise([1], 3).normal("langevin", (2, 8)))
    assert not torch.equal(base, Noise([1], 2).normal("gumbel", (2, 8)))
    assert not torch.equal(base[:, 0], base[:, 1])


def test_the_stream_is_the_one_of_the_first_release():
    # A change here changes the text of every seed that anyone has written down: make a new release of it.
    normal = Noise([0, 1234567], 7).normal("langevin", (2, 3))
    gumbel = Noise([0, 1234567], 7).gumbel("ngram.1", (1, 3))
    assert torch.allclose(normal, torch.tensor(GOLDEN_NORMAL), atol=1e-5)
    assert torch.allclose(gumbel, torch.tensor(GOLDEN_GUMBEL), atol=1e-5)
    assert [row_seed(0, 0), row_seed(0, 1), row_seed(42, 7)] == GOLDEN_SEEDS


def test_a_step_in_a_tensor_draws_the_same_numbers():
    rows, step = Rows([3, 4]), torch.tensor(0)
    for wanted in (0, 1, 2**20):
        step.fill_(wanted)
        assert torch.equal(rows.at(step).normal("langevin", (2, 5)), Noise([3, 4], wanted).normal("langevin", (2, 5)))


def test_every_sample_of_every_example_has_a_seed_of_its_own():
    seeds = {row_seed(seed, sample) for seed in range(500) for sample in range(40)}
    assert len(seeds) == 500 * 40
    assert all(0 <= seed < 2**48 for seed in seeds)  # fits into JSON and into a signed 64-bit number
    assert row_seed(1, 23) != row_seed(12, 3)
