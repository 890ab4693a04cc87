"""Samplers against theory, without a language model: on a quadratic the chain's law is known in closed form."""

import math
from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from cold.errors import ColdError
from cold.sampling import AdamLangevin, Langevin, State, run
from cold.sampling.diagnostics import Info, look_closely, term_gradients
from cold.sampling.noise import Noise
from cold.sampling.schedules import constant, langevin_noise, staircase

ENTRIES = (4, 10, 2000)  # 80,000 independent chains of one number each


class Evaluation(NamedTuple):
    energy: Tensor
    scores: Tensor
    memory: int
    parts: tuple[Tensor, ...] = ()


class Toy:
    """E = -(f_1 + f_2 + ...) of plain functions of y; its memory counts the evaluations."""

    def __init__(self, **functions: Callable[[Tensor], Tensor]) -> None:
        self.functions = functions
        self.names = list(functions)
        self.remembered: list[int] = []

    def start(self, y: Tensor) -> int:
        return 100

    def __call__(self, y: Tensor, memory: int, random: Noise) -> Evaluation:
        self.remembered.append(memory)
        scores = torch.stack([function(y) for function in self.functions.values()])
        return Evaluation(-scores.sum(0), scores, memory + 1)


def quadratic(k: float = 1.0, centre: float = 0.0) -> Toy:
    """E = k (y - centre)^2 / 2, so grad E = k (y - centre)."""
    return Toy(quadratic=lambda y: -0.5 * k * (y - centre).square().flatten(1).sum(1))


def last(sampler, energy, y: Tensor, steps: int) -> State:
    *_, (state, _) = run(sampler, y, energy, seeds=range(y.shape[0]), steps=steps)
    return state


def assert_variance(y: Tensor, expected: float) -> None:
    """Within five standard errors: a variance estimated from n normal numbers errs by sqrt(2 / n) of itself."""
    assert float(y.var()) == pytest.approx(expected, rel=5 * math.sqrt(2 / y.numel()))


# -- Langevin ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step_size", [0.1, 0.5, 1.0, 1.5, 1.9])
def test_the_stationary_variance_on_a_parabola_is_that_of_the_discrete_chain(step_size):
    # y' = (1 - s) y + sigma N(0, 1), so at rest V = (1 - s)^2 V + sigma^2
    sigma = 0.7
    state = last(Langevin(step_size, constant(sigma)), quadratic(), torch.zeros(ENTRIES), steps=60)
    assert_variance(state.y, sigma**2 / (1 - (1 - step_size) ** 2))


def test_before_rest_the_variance_grows_as_the_recursion_says():
    # from 0, after n steps V_n = sigma^2 (1 + r + ... + r^(n-1)) with r = (1 - 0.1)^2 = 0.81; n = 3: 1 + 0.81 + 0.6561
    state = last(Langevin(0.1, constant(0.5)), quadratic(), torch.zeros(ENTRIES), steps=3)
    assert_variance(state.y, 0.25 * 2.4661)


def test_a_step_of_two_over_the_curvature_diverges():
    state = last(Langevin(2.1, constant(0.0)), quadratic(), torch.ones(1, 1, 1), steps=20)
    assert float(state.y) == pytest.approx(1.1**20, rel=1e-4)  # (1 - 2.1)^20


@pytest.mark.parametrize(("temperature", "k"), [(1.0, 1.0), (0.3, 1.0), (2.0, 4.0)])
def test_langevin_noise_samples_exp_of_minus_energy_over_temperature(temperature, k):
    # exp(-k y^2 / 2T) is normal with variance T / k. The discrete chain has 2 s T / (1 - (1 - s k)^2)
    # = (T / k) / (1 - s k / 2): 2.6 % too much at s k = 0.05.
    step_size = 0.05 / k
    sampler = Langevin(step_size, langevin_noise(step_size, temperature))
    y = last(sampler, quadratic(k), torch.zeros(ENTRIES), steps=100).y
    assert_variance(y, temperature / k / (1 - 0.05 / 2))
    assert float(y.var()) == pytest.approx(temperature / k, rel=0.05)
    assert float((y / y.std()).pow(4).mean()) == pytest.approx(3, abs=0.1)


def test_a_large_step_samples_too_wide_a_law_by_the_known_bias():
    # s k = 0.5: 1 / (1 - 0.25) = 4/3 of the variance asked for
    sampler = Langevin(0.5, langevin_noise(0.5, temperature=3.0))
    assert_variance(last(sampler, quadratic(), torch.zeros(ENTRIES), steps=40).y, 4.0)


def test_without_noise_the_chain_runs_to_the_minimum_at_the_rate_of_the_curvature():
    # each step leaves 1 - 0.2 * 2 = 0.6 of the distance: from 5 to 1.5 in five steps leaves 3.5 * 0.6^5
    start = torch.full((1, 1, 1), 5.0)
    sampler = Langevin(0.2, constant(0.0))
    assert float(last(sampler, quadratic(2.0, centre=1.5), start, 5).y) == pytest.approx(1.5 + 3.5 * 0.6**5)
    assert float(last(sampler, quadratic(2.0, centre=1.5), start, 60).y) == pytest.approx(1.5, abs=1e-5)


def test_the_noise_of_a_step_has_the_sigma_of_that_step():
    # a flat energy: y is the sum of the noise, 3 steps of sigma 2 and 7 of sigma 0.5
    flat = Toy(flat=lambda y: 0 * y.flatten(1).sum(1))
    sampler = Langevin(1.0, staircase(10, levels=(2.0, 0.5), starts=(0, 0.3)))
    assert_variance(last(sampler, flat, torch.zeros(ENTRIES), steps=10).y, 3 * 4 + 7 * 0.25)


@pytest.mark.parametrize("sampler", [Langevin(0.3, constant(0.5)), AdamLangevin(0.3, constant(0.5))])
def test_a_row_walks_alone_as_it_walks_in_a_batch(sampler):
    start = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0))
    *_, (together, _) = run(sampler, start, quadratic(), seeds=[11, 12, 13], steps=5)
    *_, (alone, _) = run(sampler, start[1:2], quadratic(), seeds=[12], steps=5)
    assert torch.allclose(together.y[1:2], alone.y, atol=1e-6)


# -- Adam -------------------------------------------------------------------------------------------------------


def quartic(y: Tensor) -> Tensor:
    return -(y.pow(4) / 4 - 2 * y.square() + 3 * y).flatten(1).sum(1)


@pytest.mark.parametrize("options", [{}, {"beta1": 0.7, "beta2": 0.95, "eps": 0.1}])
def test_without_noise_adam_langevin_is_adam_step_by_step(options):
    y = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(1))
    theirs = y.clone().requires_grad_(True)
    betas = (options.get("beta1", 0.9), options.get("beta2", 0.999))
    adam = torch.optim.Adam([theirs], lr=0.1, betas=betas, eps=options.get("eps", 1e-8))
    for state, _ in run(AdamLangevin(0.1, constant(0.0), **options), y, Toy(quartic=quartic), [0, 1], steps=25):
        adam.zero_grad()
        (-quartic(theirs).sum()).backward()
        adam.step()
        assert torch.allclose(state.y, theirs, atol=1e-5), state.step


def test_noise_never_enters_adams_moments():
    # E = 2 y: the gradient is 2 wherever the noise takes y, so the moments are 2 (1 - 0.9^n) and 4 (1 - 0.999^n)
    slope = Toy(slope=lambda y: -2 * y.flatten(1).sum(1))
    start = torch.zeros(2, 3, 4)
    quiet = last(AdamLangevin(0.1, constant(0.0)), slope, start, steps=6)
    loud = last(AdamLangevin(0.1, constant(5.0)), slope, start, steps=6)
    assert (loud.y - quiet.y).abs().min() > 1e-3
    for one, other in zip(quiet.moments, loud.moments, strict=True):
        assert torch.equal(one, other)
    assert torch.allclose(loud.moments[0], torch.full_like(start, 2 * (1 - 0.9**6)))
    assert torch.allclose(loud.moments[1], torch.full_like(start, 4 * (1 - 0.999**6)))


def test_adams_drift_and_the_noise_add_up():
    # a constant gradient moves Adam by step_size each step: y_6 = -0.1 * 6 + sigma * (sum of the six draws)
    slope = Toy(slope=lambda y: -2 * y.flatten(1).sum(1))
    state = last(AdamLangevin(0.1, constant(0.3)), slope, torch.zeros(1, 2, 3), steps=6)
    draws = sum(Noise([0], step).normal("langevin", (2, 3)) for step in range(6))
    assert torch.allclose(state.y, -0.6 + 0.3 * draws, atol=1e-5)


# -- the loop ---------------------------------------------------------------------------------------------------


def test_run_yields_once_per_step():
    walk = list(run(Langevin(0.1, constant(0.1)), torch.zeros(2, 1, 3), quadratic(), [0, 1], steps=7))
    assert [state.step for state, _ in walk] == [1, 2, 3, 4, 5, 6, 7]  # steps done
    assert [info.step for _, info in walk] == [0, 1, 2, 3, 4, 5, 6]  # the step that was seen


@pytest.mark.parametrize("sampler", [Langevin(0.1, constant(0.1)), AdamLangevin(0.1, constant(0.1))])
def test_a_run_writes_every_state_over_the_one_before(sampler):
    walk = [state for state, _ in run(sampler, torch.zeros(1, 2, 3), quadratic(), [0], steps=5)]
    assert len({state.y.data_ptr() for state in walk}) == 1


def test_states_carry_no_graph_and_the_start_is_left_alone():
    start = torch.ones(1, 2, 3)
    with torch.no_grad():  # the sampler turns gradients on for itself
        state = last(Langevin(0.1, constant(0.1)), quadratic(), start, steps=2)
    assert not state.y.requires_grad
    assert torch.equal(start, torch.ones(1, 2, 3))


@pytest.mark.parametrize("steps", [0, -3])
def test_less_than_one_step_is_refused(steps):
    with pytest.raises(ColdError, match=f"{steps} steps were asked for"):
        list(run(Langevin(0.1, constant(0.1)), torch.zeros(1, 1, 2), quadratic(), [0], steps))


@pytest.mark.parametrize("seeds", [[], [1], [1, 2, 3]])
def test_a_wrong_number_of_seeds_is_refused(seeds):
    with pytest.raises(ColdError, match=f"{len(seeds)} seeds were given for 2 rows"):
        list(run(Langevin(0.1, constant(0.1)), torch.zeros(2, 1, 2), quadratic(), seeds, steps=1))


@pytest.mark.parametrize("sampler", [Langevin(0.1, constant(0.1)), AdamLangevin(0.1, constant(0.1))])
def test_what_the_energy_returns_as_memory_comes_back_in_the_next_step(sampler):
    energy = quadratic()
    walk = list(run(sampler, torch.zeros(1, 1, 2), energy, [0], steps=3))
    assert energy.remembered == [100, 101, 102]  # start() gives 100, every evaluation adds 1
    assert walk[-1][0].memory == 103


def test_measuring_the_terms_does_not_change_the_walk():
    energy = quadratic()
    start = torch.ones(1, 2, 3)
    plain = last(Langevin(0.1, constant(0.1)), energy, start, steps=4)
    *_, (watched, _) = run(Langevin(0.1, constant(0.1)), start, energy, [0], steps=4, watch=1)
    assert torch.equal(plain.y, watched.y)
    assert plain.memory == watched.memory


def test_a_term_that_is_not_a_number_stops_the_walk_under_its_name():
    # the step takes y from 1 to 0, where 0 / 0 is met
    ratio = Toy(fine=lambda y: -0.5 * y.square().flatten(1).sum(1), ratio=lambda y: (y * 0 / y).flatten(1).sum(1))
    walk = run(Langevin(1.0, constant(0.0)), torch.ones(2, 1, 1), ratio, [0, 1], steps=5)
    next(walk)
    with pytest.raises(ColdError, match=r"^term 'ratio' is nan in row 0 at step 1"):
        next(walk)


def test_a_gradient_that_is_not_a_number_stops_the_walk_before_it_spoils_the_state():
    # |y| as the root of a square: 0 at 0, but its slope there is 0 / 0
    root = Toy(root=lambda y: -y.square().sum((1, 2)).sqrt())
    start = torch.tensor([1.0, 0.0]).view(2, 1, 1)
    with pytest.raises(ColdError, match=r"gradient of the energy is nan in row 1 at step 0: a term of it \(root\)"):
        list(run(Langevin(0.1, constant(0.0)), start, root, [0, 1], steps=1))


# -- what a person sees -----------------------------------------------------------------------------------------


def test_info_shows_energy_scores_and_gradient_before_the_step():
    # E = -(f_1 + f_2) with f_1 = 3 a + 4 b, f_2 = -a^2 / 2 at (a, b) = (2, 1): f = (10, -2), E = -8,
    # grad E = (-3 + 2, -4), of length sqrt(17)
    two = Toy(line=lambda y: 3 * y[:, 0, 0] + 4 * y[:, 0, 1], bowl=lambda y: -0.5 * y[:, 0, 0].square())
    start = torch.tensor([[[2.0, 1.0]]])
    ((state, info),) = run(Langevin(0.1, constant(0.0)), start, two, [0], steps=1)
    assert info.scores.tolist() == [[10.0], [-2.0]]
    assert info.energy.tolist() == [-8.0]
    assert info.gradient.tolist() == pytest.approx([math.sqrt(17)])
    assert state.y.flatten().tolist() == pytest.approx([2.1, 1.4])


def test_term_gradients_are_the_norms_of_each_term_alone():
    # |grad f| of 3 a + 4 b is 5 everywhere, of -a^2 / 2 it is |a|, of a constant 0
    three = Toy(
        line=lambda y: 3 * y[:, 0, 0] + 4 * y[:, 0, 1],
        bowl=lambda y: -0.5 * y[:, 0, 0].square(),
        level=lambda y: torch.ones(y.shape[0]),
    )
    y = torch.tensor([[[2.0, 1.0]], [[-7.0, 1.0]]])
    norms = term_gradients(three, State(y, 0, 100), Noise([0, 1], 0))
    assert torch.allclose(norms, torch.tensor([[5.0, 5.0], [2.0, 7.0], [0.0, 0.0]]))


def test_terms_are_measured_every_so_many_steps_and_not_at_all_by_default():
    sampler, y = Langevin(0.1, constant(0.1)), torch.ones(1, 1, 2)
    measured = [info.term_gradients is not None for _, info in run(sampler, y, quadratic(), [0], 7, watch=3)]
    assert measured == [True, False, False, True, False, False, True]
    assert all(info.term_gradients is None for _, info in run(sampler, y, quadratic(), [0], 3))


def closely(y: torch.Tensor, drift: list, noise: list) -> Info:
    rows = len(y)
    plain = Info(0, torch.zeros(rows), torch.zeros(1, rows), torch.zeros(rows))
    drift, noise = torch.tensor(drift), torch.tensor(noise)
    return look_closely(plain, State(y, 1, None), torch.zeros(1, rows), drift, noise)


def test_drift_to_noise_is_the_ratio_of_the_two_moves_per_row():
    # row 0: |(3, 4)| / |(0, 2.5)| = 2; row 1: |(1, 0)| / |(6, 8)| = 0.1; row 2 has no noise
    drift, noise = [[[3.0, 4.0]], [[1.0, 0.0]], [[1.0, 0.0]]], [[[0.0, 2.5]], [[6.0, 8.0]], [[0.0, 0.0]]]
    info = closely(torch.zeros(3, 1, 2), drift, noise)
    assert info.drift_to_noise.tolist() == pytest.approx([2.0, 0.1, math.inf])


def test_in_a_run_drift_to_noise_compares_step_size_times_gradient_with_the_draw():
    slope = Toy(slope=lambda y: 3 * y[:, 0, 0] + 4 * y[:, 0, 1])  # |drift| = 0.2 * 5
    ((_, info),) = run(Langevin(0.2, constant(0.7)), torch.zeros(1, 1, 2), slope, [5], steps=1, watch=1)
    drawn = 0.7 * Noise([5], 0).normal("langevin", (1, 2)).norm()
    assert float(info.drift_to_noise) == pytest.approx(1.0 / float(drawn), rel=1e-5)


def test_entropy_is_the_mean_over_positions_of_what_the_step_has_left():
    # (1/2, 1/4, 1/4) has 1.5 ln 2 nats, uniform over three ln 3; a second row is certain everywhere
    y = torch.tensor([[[0.5, 0.25, 0.25], [1 / 3, 1 / 3, 1 / 3]], [[1.0, 1e-30, 1e-30], [1e-30, 1.0, 1e-30]]]).log()
    anything = torch.arange(12.0).view(2, 2, 3).tolist()  # the move that led here does not count
    info = closely(y, anything, anything)
    assert info.entropy.tolist() == pytest.approx([(1.5 * math.log(2) + math.log(3)) / 2, 0.0])
