"""Metropolis-Hastings on tuples of ids: accept x -> x' with min(1, pi(x') q(x | x') / (pi(x) q(x' | x)))."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

State = tuple[int, ...]
Draw = Callable[[Tensor], int]  # weights -> an index, as often as its weight says
T = TypeVar("T")
NEVER = -math.inf


class Around(NamedTuple):
    """A question of a chain: which tokens fit between the two?"""

    left: State
    right: State


class Score(NamedTuple):
    """A question of a chain: log pi of each, up to one constant."""

    states: tuple[State, ...]


# A chain asks and is told, so that the questions of many chains can be answered together; it ends with a T.
Steps = Generator[Around | Score, Any, T]


@dataclass(frozen=True, eq=False)
class Nearby:
    """q(token | left, right) of the whole vocabulary, as logs in float64 on the CPU, and its `best` tokens."""

    log_probs: Tensor
    best: tuple[int, ...]


class Oracle(Protocol):
    """The only two things a chain knows of the world, each for many rows at once; a row's states side by side."""

    def near(self, rows: Sequence[int], asked: Sequence[Around]) -> Sequence[Nearby]: ...

    def score(self, rows: Sequence[int], states: Sequence[State]) -> Sequence[float]: ...


class Proposal(NamedTuple):
    """Where a move leads, the log-probability of that very move, and of the move that undoes it (less a common factor).

    Two moves may lead to one state (a word may go in before or behind its twin); balancing each move with the one
    that undoes it balances their sums.
    """

    state: State
    forward: float
    backward: float


class Kernel(Protocol):
    def propose(self, state: State, draw: Draw) -> Steps[Proposal]: ...


@dataclass(frozen=True)
class Mixture:
    """One of several kernels with a fixed probability. Each undoes its own moves, so the choice cancels out."""

    kernels: tuple[Kernel, ...]
    weights: tuple[float, ...]

    def propose(self, state: State, draw: Draw) -> Steps[Proposal]:
        chosen = self.kernels[draw(torch.tensor(self.weights, dtype=torch.float64))]
        return (yield from chosen.propose(state, draw))


@dataclass(frozen=True)
class Stay:
    """The kernel that does nothing."""

    def propose(self, state: State, draw: Draw) -> Steps[Proposal]:
        yield from ()
        return stay(state)


def stay(state: State) -> Proposal:
    return Proposal(state, 0.0, 0.0)


@dataclass(frozen=True)
class Heuristic:
    """What released code adds to the rule. As it stands here it adds nothing; anything else leaves pi no longer kept.

    `threshold`: refuse where pi(x') <= threshold pi(x), in every other `period` of steps (0: in all).
    `prior`: a longer x' is accepted prior / length(x) times as readily.
    """

    threshold: float = 0.0
    period: int = 0
    prior: float = 0.0

    def log_factor(self, number: int, gain: float, before: State, after: State) -> float:
        """Added to the log of the acceptance ratio of step `number`, which raises log pi by `gain`."""
        on = not self.period or number // self.period % 2 == 1
        if on and self.threshold and gain <= math.log(self.threshold):
            return NEVER
        return math.log(self.prior / max(len(before), 1)) if self.prior and len(after) > len(before) else 0.0


EXACT = Heuristic()


class Visit(NamedTuple):
    state: State
    score: float


def acceptance(gain: float, proposal: Proposal) -> float:
    """The probability of going there, when it raises log pi by `gain`."""
    ratio = gain + proposal.backward - proposal.forward
    return math.exp(min(0.0, ratio)) if proposal.backward > NEVER else 0.0


def step(kernel: Kernel, here: Visit, draw: Draw, number: int = 0, rule: Heuristic = EXACT) -> Steps[Visit]:
    """One step of the chain."""
    proposal = yield from kernel.propose(here.state, draw)
    if proposal.state == here.state or proposal.backward == NEVER:
        return here
    (score,) = yield Score((proposal.state,))
    gain = score - here.score
    chance = acceptance(gain + rule.log_factor(number, gain, here.state, proposal.state), proposal)
    there = draw(torch.tensor([1.0 - chance, chance], dtype=torch.float64))
    return Visit(proposal.state, score) if there else here


def walk(kernel: Kernel, start: State, draw: Draw, steps: int, rule: Heuristic = EXACT) -> Steps[dict[State, float]]:
    """Every state that the chain came through, with its log pi, in the order of the first visits."""
    (score,) = yield Score((start,))
    here, visited = Visit(start, score), {start: score}
    for number in range(steps):
        here = yield from step(kernel, here, draw, number, rule)
        visited[here.state] = here.score
    return visited


def seeded(seed: int) -> Draw:
    """Draws of one row, which depend on its seed alone."""
    source = random.Random(seed)

    def draw(weights: Tensor) -> int:
        edges = weights.cumsum(0)
        below = min(source.random() * float(edges[-1]), math.nextafter(float(edges[-1]), 0.0))
        return int(torch.searchsorted(edges, below, right=True))  # right: never an index without weight

    return draw


def one_of(size: int, draw: Draw) -> int:
    """Any of so many, with the same chance."""
    return draw(torch.ones(size, dtype=torch.float64))


def run(chains: Sequence[Steps[T]], oracle: Oracle) -> list[T]:
    """Chains side by side. Scores wait until no chain looks for tokens: so each is asked about in one large batch."""
    ended: dict[int, T] = {}
    open_: dict[int, Around | Score] = {}

    def go_on(row: int, told: Any) -> None:
        try:
            open_[row] = chains[row].send(told)
        except StopIteration as end:
            ended[row] = end.value

    for row in range(len(chains)):
        go_on(row, None)
    while open_:
        gaps = {row: asked for row, asked in open_.items() if isinstance(asked, Around)}
        told = _near(gaps, oracle) if gaps else _score({r: q for r, q in open_.items() if isinstance(q, Score)}, oracle)
        for row, answer in told.items():
            del open_[row]
            go_on(row, answer)
    return [ended[row] for row in range(len(chains))]


def _near(asked: dict[int, Around], oracle: Oracle) -> dict[int, Nearby]:
    return dict(zip(asked, oracle.near(list(asked), list(asked.values())), strict=True))


def _score(asked: dict[int, Score], oracle: Oracle) -> dict[int, list[float]]:
    rows = [row for row, question in asked.items() for _ in question.states]
    scores = iter(oracle.score(rows, [state for question in asked.values() for state in question.states]))
    return {row: [next(scores) for _ in question.states] for row, question in asked.items()}


def outcomes(kernel: Kernel, state: State, oracle: Oracle) -> Iterator[tuple[float, Proposal]]:
    """Every way in which the kernel's draws can fall, with its probability. For small vocabularies."""
    todo: list[list[int]] = [[]]
    while todo:
        replay = _Replay(todo.pop(), todo)
        (proposal,) = run([kernel.propose(state, replay)], oracle)
        yield replay.probability, proposal


def moves(kernel: Kernel, state: State, oracle: Oracle) -> dict[State, float]:
    """q(x' | x) of every x'."""
    found: dict[State, float] = {}
    for probability, proposal in outcomes(kernel, state, oracle):
        found[proposal.state] = found.get(proposal.state, 0.0) + probability
    return found


class _Replay:
    """Draws that follow a script, then take the first choice and note the others for later."""

    def __init__(self, script: list[int], todo: list[list[int]]) -> None:
        self.script, self.todo = script, todo
        self.taken: list[int] = []
        self.probability = 1.0

    def __call__(self, weights: Tensor) -> int:
        probs = (weights / weights.sum()).tolist()
        depth = len(self.taken)
        if depth < len(self.script):
            chosen = self.script[depth]
        else:
            chosen, *others = [i for i, p in enumerate(probs) if p > 0]
            self.todo.extend([*self.taken, other] for other in others)
        self.taken.append(chosen)
        self.probability *= probs[chosen]
        return chosen
