"""Noise schedules: step -> sigma, keeping their shape for any number of steps."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cold.errors import ColdError
from cold.sampling.schedules import (
    RELEASED_ENDING_LEVELS,
    RELEASED_ENDING_STARTS,
    constant,
    geometric,
    langevin_noise,
    staircase,
)


def starts_of(sigma, steps: int) -> dict[int, float]:
    """The steps at which sigma takes a new value."""
    values = [sigma(n) for n in range(steps)]
    return {n: value for n, value in enumerate(values) if n == 0 or value != values[n - 1]}


def test_the_paper_s_staircase_takes_its_five_levels_at_the_paper_s_iterations():
    assert starts_of(staircase(2000), 2000) == {0: 1.0, 50: 0.5, 500: 0.1, 1000: 0.05, 1500: 0.01}


def test_the_published_counterfactual_script_has_four_levels_that_come_sooner():
    sigma = staircase(2000, RELEASED_ENDING_LEVELS, RELEASED_ENDING_STARTS)
    assert starts_of(sigma, 2000) == {0: 0.5, 50: 0.1, 200: 0.05, 500: 0.01}


def test_a_shorter_staircase_changes_at_the_same_fractions():
    # 0.025, 0.25, 0.5 and 0.75 of 100 steps: 2.5 rounds up to 3
    assert starts_of(staircase(100), 100) == {0: 1.0, 3: 0.5, 25: 0.1, 50: 0.05, 75: 0.01}


def test_scale_multiplies_every_level():
    # 0.4 and 0.7 of 10 steps; levels times 0.3
    sigma = staircase(10, levels=(2.0, 1.0, 0.5), starts=(0, 0.4, 0.7), scale=0.3)
    assert starts_of(sigma, 10) == pytest.approx({0: 0.6, 4: 0.3, 7: 0.15})


@given(st.integers(1, 5000))
def test_a_staircase_never_rises(steps):
    sigma = staircase(steps)
    values = [sigma(n) for n in range(steps)]
    assert values == sorted(values, reverse=True)


@given(st.integers(40, 5000))
def test_from_forty_steps_on_every_level_is_taken_for_its_share_of_the_steps(steps):
    starts = starts_of(staircase(steps), steps)
    assert list(starts.values()) == [1.0, 0.5, 0.1, 0.05, 0.01]  # with fewer, the first may last half a step: none
    assert all(abs(n - f * steps) <= 0.5 for n, f in zip(starts, (0, 0.025, 0.25, 0.5, 0.75), strict=True))


def test_geometric_falls_from_begin_to_end_in_equal_ratios():
    # 8 -> 1/2 in four moves: each divides by 2
    sigma = geometric(5, begin=8.0, end=0.5)
    assert [sigma(n) for n in range(5)] == pytest.approx([8, 4, 2, 1, 0.5])


def test_geometric_stays_at_its_end_and_survives_a_single_step():
    assert geometric(5, begin=8.0, end=0.5)(99) == pytest.approx(0.5)
    assert geometric(1, begin=8.0, end=0.5)(0) == 8.0


@given(st.integers(2, 3000), st.floats(1e-3, 10), st.floats(1e-3, 10))
def test_geometric_stays_between_its_ends(steps, begin, end):
    sigma = geometric(steps, begin, end)
    assert sigma(0) == pytest.approx(begin)
    assert sigma(steps - 1) == pytest.approx(end)
    assert min(begin, end) * 0.999 <= sigma(steps // 2) <= max(begin, end) * 1.001


def test_constant_is_the_same_at_every_step():
    sigma = constant(0.7)
    assert [sigma(0), sigma(17), sigma(10**6)] == [0.7] * 3


def test_langevin_noise_is_the_root_of_twice_step_size_times_temperature():
    # sqrt(2 * 0.18 * 4) = sqrt(1.44)
    assert langevin_noise(0.18, temperature=4.0)(3) == pytest.approx(1.2)
    assert langevin_noise(0.5)(0) == pytest.approx(math.sqrt(1.0))


@pytest.mark.parametrize(
    ("levels", "starts"),
    [
        ((1.0, 0.1), (0.0,)),  # a level without a start
        ((), ()),  # nothing at all
        ((1.0, 0.1), (0.2, 0.5)),  # nothing says what sigma is at step 0
        ((1.0, 0.5, 0.1), (0.0, 0.5, 0.2)),  # the starts fall
    ],
)
def test_a_staircase_that_does_not_rise_from_zero_is_refused(levels, starts):
    with pytest.raises(ColdError, match="as many starts as levels, rising from 0"):
        staircase(100, levels, starts)


@pytest.mark.parametrize(("begin", "end"), [(0.0, 0.1), (1.0, 0.0), (-1.0, 0.1), (1.0, math.nan)])
def test_a_geometric_schedule_needs_ends_above_zero(begin, end):
    with pytest.raises(ColdError, match="above 0"):
        geometric(100, begin, end)
