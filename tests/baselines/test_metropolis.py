"""The Metropolis-Hastings core without any LM: what it keeps, what it draws, how chains run side by side."""

import math
from itertools import product

import pytest
import torch

from cold.baselines.draws import Nearby, Seeded
from cold.baselines.metropolis import (
    EXACT,
    Around,
    Heuristic,
    Mixture,
    Oracle,
    Proposal,
    Score,
    Stay,
    Visit,
    acceptance,
    moves,
    outcomes,
    run,
    step,
    walk,
)

TOKENS = 6


class Tables(Oracle):
    """An oracle of small random tables: pi of every state and q of every gap, made when first asked for."""

    def __init__(self, seed=0, tokens=TOKENS, top=None, penalty=0.0):
        self.random = torch.Generator().manual_seed(seed)
        self.tokens, self.top, self.penalty = tokens, top or tokens, penalty
        self.scores, self.gaps, self.batches = {}, {}, []

    def score(self, rows, states):
        self.batches.append(("score", len(states)))
        return [self.log_pi(state) for state in states]

    def log_pi(self, state):
        if state not in self.scores:
            self.scores[state] = float(torch.randn(1, generator=self.random)) - self.penalty * (state.count(-1) != 1)
        return self.scores[state]

    def near(self, rows, asked):
        self.batches.append(("near", len(asked)))
        return [self.gap(gap) for gap in asked]

    def gap(self, gap):
        place = (gap.left, gap.right)
        if place not in self.gaps:
            logits = torch.randn(self.tokens, generator=self.random, dtype=torch.float64)
            best = tuple(logits.topk(self.top).indices.tolist())
            self.gaps[place] = Nearby(logits.log_softmax(0), best)
        return self.gaps[place]


def every_state(alphabet, lengths):
    return [state for n in lengths for state in product(alphabet, repeat=n)]


def target(states, oracle):
    return torch.tensor([oracle.log_pi(state) for state in states], dtype=torch.float64).softmax(0)


def transition(kernel, states, oracle):
    """T[x, x'] from the kernel's own probabilities: how often each move is proposed, and how often accepted."""
    number = {state: i for i, state in enumerate(states)}
    matrix = torch.zeros(len(states), len(states), dtype=torch.float64)
    for state, i in number.items():
        for probability, proposal in outcomes(kernel, state, oracle):
            gain = oracle.log_pi(proposal.state) - oracle.log_pi(state)
            there = probability * acceptance(gain, proposal)
            matrix[i, number[proposal.state]] += there
            matrix[i, i] += probability - there
    return matrix


def keeps(matrix, pi):
    """The largest change of any state's probability after one step; a row of the matrix sums to one."""
    assert (matrix.sum(1) - 1).abs().max() < 1e-10
    return float((pi @ matrix - pi).abs().max())


def is_irreducible(matrix):
    """Every state is reached from every other."""
    reached = (matrix > 0).double() + torch.eye(len(matrix), dtype=torch.float64)
    for _ in range(len(matrix).bit_length()):
        reached = (reached @ reached).clamp(max=1)
    return bool((reached > 0).all())


def agrees(kernel, states, oracle, chains=2000, steps=8):
    """Whether chains that start as pi says also end so: chi-square, in groups of states, within five sigma of its mean.

    The ends are independent of each other, so that chi-square has its usual mean and spread.
    """
    pi, groups = target(states, oracle), min(len(states), 12)
    first, number = Seeded(7), {state: i for i, state in enumerate(states)}
    ends = run([_end(kernel, states[first(pi.tolist())], Seeded(seed), steps) for seed in range(chains)], oracle)
    group = torch.arange(len(states)) % groups
    wanted = chains * torch.zeros(groups, dtype=torch.float64).index_add_(0, group, pi)
    seen = torch.bincount(group[torch.tensor([number[state] for state in ends])], minlength=groups)
    chi = float(((seen - wanted) ** 2 / wanted).sum())
    return chi < groups - 1 + 5 * math.sqrt(2 * (groups - 1))


def _end(kernel, start, draw, steps):
    score = yield Score(start)
    here = Visit(start, score)
    for _ in range(steps):
        here = yield from step(kernel, here, draw)
    return here.state


class Jump:
    """Any single token for the one there, from a table that knows where it comes from."""

    def __init__(self, seed=3):
        self.table = torch.rand(TOKENS, TOKENS, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        self.table /= self.table.sum(1, keepdim=True)

    def propose(self, state, draw):
        yield Around((), ())
        token = draw(self.table[state[0]].tolist())
        return Proposal((token,), math.log(self.table[state[0], token]), math.log(self.table[token, state[0]]))


def test_a_lopsided_proposal_keeps_the_target():
    oracle, states = Tables(), every_state(range(TOKENS), [1])
    matrix = transition(Jump(), states, oracle)
    assert keeps(matrix, target(states, oracle)) < 1e-12
    assert is_irreducible(matrix)
    assert agrees(Jump(), states, oracle)


def test_a_mixture_of_kernels_keeps_what_each_of_them_keeps():
    oracle, states = Tables(), every_state(range(TOKENS), [1])
    mixed = Mixture((Jump(3), Jump(4), Stay()), (0.5, 0.3, 0.2))
    matrix = transition(mixed, states, oracle)
    parts = [transition(kernel, states, oracle) for kernel in mixed.kernels]
    assert torch.allclose(matrix, 0.5 * parts[0] + 0.3 * parts[1] + 0.2 * parts[2])
    assert keeps(matrix, target(states, oracle)) < 1e-12


def test_the_moves_of_a_kernel_are_its_draws_counted():
    kernel = Jump()
    found = moves(kernel, (2,), Tables())
    assert found == pytest.approx({(i,): float(kernel.table[2, i]) for i in range(TOKENS)})
    for probability, proposal in outcomes(kernel, (2,), Tables()):
        assert math.log(probability) == pytest.approx(proposal.forward)


def test_a_wrong_way_back_is_noticed():
    class Wrong(Jump):
        def propose(self, state, draw):
            proposal = yield from super().propose(state, draw)
            return proposal._replace(backward=proposal.forward)

    oracle, states = Tables(), every_state(range(TOKENS), [1])
    assert keeps(transition(Wrong(), states, oracle), target(states, oracle)) > 1e-3
    assert not agrees(Wrong(), states, oracle)


def test_an_index_without_weight_is_never_drawn_and_others_as_often_as_they_should():
    draw, weights = Seeded(1), [0.0, 1.0, 0.0, 3.0, 0.0]
    drawn = [draw(weights) for _ in range(4000)]
    assert set(drawn) == {1, 3}
    assert abs(drawn.count(3) / 4000 - 0.75) < 5 * math.sqrt(0.75 * 0.25 / 4000)


def test_chains_side_by_side_are_asked_about_together_and_go_as_alone():
    kernel, oracle = Jump(), Tables()
    alone = [run([walk(kernel, (0,), Seeded(seed), 20)], oracle)[0] for seed in range(4)]
    oracle.batches.clear()
    assert run([walk(kernel, (0,), Seeded(seed), 20) for seed in range(4)], oracle) == alone
    assert ("near", 4) in oracle.batches
    assert sum(kind == "score" for kind, _ in oracle.batches) <= 21


def test_the_heuristic_is_off_unless_asked_for():
    assert EXACT.log_factor(15, -50.0, (1,), (1, 2)) == 0.0
    assert Heuristic(threshold=0.5).log_factor(0, math.log(0.4), (1,), (2,)) == -math.inf
    assert Heuristic(threshold=0.5).log_factor(0, math.log(0.6), (1,), (2,)) == 0.0
    assert Heuristic(threshold=0.5, period=10).log_factor(9, math.log(0.4), (1,), (2,)) == 0.0
    assert Heuristic(threshold=0.5, period=10).log_factor(10, math.log(0.4), (1,), (2,)) == -math.inf
    assert Heuristic(prior=10.0).log_factor(0, 0.0, (1, 2), (1, 2, 3)) == pytest.approx(math.log(5))
    assert Heuristic(prior=10.0).log_factor(0, 0.0, (1, 2), (1,)) == 0.0
