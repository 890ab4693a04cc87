"""Metropolis-Hastings on tuples of ids: accept x -> x' with min(1, pi(x') q(x | x') / (pi(x) q(x' | x)))."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import torch

from cold.baselines.draws import NEVER, Blend, Draw, Nearby, along

State = tuple[int, ...]
T = TypeVar("T")


class Around(NamedTuple):
    """A question of a chain: which tokens fit between the two? And what about the `known`?"""

    left: State
    right: State
    known: State = ()


class Far(NamedTuple):
    """A question of a chain: which token stands so far along q, from 0 to 1, and how likely is it?"""

    near: Nearby
    at: float


class Fill(NamedTuple):
    """A question of a chain: log pi of left + token + right for each of the tokens, up to one constant for all."""

    left: State
    tokens: State
    right: State


class Score(NamedTuple):
    """A question of a chain: log pi of a state, up to the same constant."""

    state: State


# A chain asks and is told, so that the questions of many chains can be answered together; it ends with a T.
Question = Around | Far | Fill | Score
Steps = Generator[Question, Any, T]


class Oracle(Protocol):
    """The only two things a chain knows of the world, each for many rows at once; a family may be scored faster."""

    def near(self, rows: Sequence[int], asked: Sequence[Around]) -> Sequence[Nearby]: ...

    def score(self, rows: Sequence[int], states: Sequence[State]) -> Sequence[float]: ...

    def fill(self, rows: Sequence[int], asked: Sequence[Fill]) -> list[list[float]]:
        families = [(row, gap) for row, gap in zip(rows, asked, strict=True) for _ in gap.tokens]
        states = [(*gap.left, token, *gap.right) for gap in asked for token in gap.tokens]
        scores = iter(self.score([row for row, _ in families], states))
        return [[next(scores) for _ in gap.tokens] for gap in asked]


def drawn(blend: Blend, draw: Draw) -> Steps[tuple[int, float]]:
    """A token of the blend, and the log of the probability with which it was drawn."""
    at = draw.pick(blend)
    token, log_prob = (yield Far(blend.near, at)) if isinstance(at, float) else (at, None)
    return token, blend.log(token, log_prob)


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
        chosen = self.kernels[draw(self.weights)]
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
    if proposal.state == here.state or NEVER in (proposal.forward, proposal.backward):
        return here
    score = yield Score(proposal.state)
    gain = score - here.score
    chance = acceptance(gain + rule.log_factor(number, gain, here.state, proposal.state), proposal)
    there = draw((1.0 - chance, chance))
    return Visit(proposal.state, score) if there else here


def walk(kernel: Kernel, start: State, draw: Draw, steps: int, rule: Heuristic = EXACT) -> Steps[dict[State, float]]:
    """Every state that the chain came through, with its log pi, in the order of the first visits."""
    score = yield Score(start)
    here, visited = Visit(start, score), {start: score}
    for number in range(steps):
        here = yield from step(kernel, here, draw, number, rule)
        visited[here.state] = here.score
    return visited


def run(chains: Sequence[Steps[T]], oracle: Oracle) -> list[T]:
    """Chains side by side. Dear questions wait until none asks a cheaper one: so each is asked in one large batch."""
    ended: dict[int, T] = {}
    open_: dict[int, Question] = {}

    def go_on(row: int, told: Any) -> None:
        try:
            open_[row] = chains[row].send(told)
        except StopIteration as end:
            ended[row] = end.value

    for row in range(len(chains)):
        go_on(row, None)
    while open_:
        for row, answer in _answers(open_, oracle).items():
            del open_[row]
            go_on(row, answer)
    return [ended[row] for row in range(len(chains))]


def _answers(asked: dict[int, Question], oracle: Oracle) -> dict[int, Any]:
    """To all questions of the cheapest kind that is asked."""
    ask: dict[type[Any], Callable[[list[int], list[Any]], Sequence[Any]]] = {
        Far: lambda _, some: along(torch.stack([one.near.log_probs for one in some]), [one.at for one in some]),
        Around: oracle.near,
        Score: lambda rows, some: oracle.score(rows, [one.state for one in some]),
        Fill: oracle.fill,
    }
    for kind, answer in ask.items():
        some = {row: question for row, question in asked.items() if isinstance(question, kind)}
        if some:
            return dict(zip(some, answer(list(some), list(some.values())), strict=True))
    return {}


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

    def __call__(self, weights: Sequence[float]) -> int:
        depth, total = len(self.taken), sum(weights)
        if depth < len(self.script):
            chosen = self.script[depth]
        else:
            chosen, *others = [i for i, weight in enumerate(weights) if weight > 0]
            self.todo.extend([*self.taken, other] for other in others)
        self.taken.append(chosen)
        self.probability *= weights[chosen] / total
        return chosen

    def one_of(self, size: int) -> int:
        return self([1.0] * size)

    def pick(self, blend: Blend) -> int:
        return self(blend.dense())
