"""Derivatives written by hand are those of the plain formulas."""

import pytest
import torch
from torch.autograd import gradcheck

from cold.kernels import agreement, chosen, level, soft_tokens


def logits(*shape: int, seed: int = 0) -> torch.Tensor:
    made = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return made.requires_grad_()


@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_soft_tokens_are_a_softmax_with_its_slope(temperature):
    y = logits(2, 3, 5)
    assert torch.equal(soft_tokens(y, temperature, False), (y / temperature).softmax(-1))
    assert gradcheck(lambda y: soft_tokens(y, temperature, False), y)


def test_straight_through_the_slope_is_that_of_a_temperature_of_one_at_the_sharper_point():
    y, weights = logits(2, 3, 5), logits(2, 3, 5, seed=1).detach()
    (true,) = torch.autograd.grad((soft_tokens(y, 0.3, False) * weights).sum(), y)
    (straight,) = torch.autograd.grad((soft_tokens(y, 0.3, True) * weights).sum(), y)
    assert torch.allclose(straight, 0.3 * true)


def test_agreement_is_the_expected_logit_with_both_slopes():
    expected, y = logits(2, 3, 5), logits(2, 3, 5, seed=1)
    assert torch.allclose(agreement(expected, y), (expected.softmax(-1) * y).sum(-1))
    assert gradcheck(agreement, (expected, y))
    assert gradcheck(lambda y: agreement(expected.detach(), y), y)


def test_less_the_level_a_logit_is_a_log_probability():
    y = logits(2, 3, 5)
    assert torch.allclose(y - level(y)[..., None], y.log_softmax(-1))
    assert gradcheck(level, y)


def test_chosen_is_the_log_probability_of_a_token_with_its_slope():
    said, ids = logits(2, 3, 5), torch.tensor([[0, 4, 4], [2, 1, 0]])
    assert torch.allclose(chosen(said, ids), said.log_softmax(-1).gather(-1, ids[..., None])[..., 0])
    assert gradcheck(lambda said: chosen(said, ids), said)
