"""Clauses over tokens, AND of ORs of phrases, read token by token: what is met, what is begun, what is forbidden."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from cold.errors import ColdError

START = -1  # stands before the first token: a phrase that opens with it is met at the start of a text only

Phrase = tuple[int, ...]


class Literal(NamedTuple):
    phrase: Phrase
    positive: bool = True  # it must come; if not, it must never come


class State(NamedTuple):
    """All that matters of a text so far. Two texts in one state can be continued in the same ways."""

    met: frozenset[int] = frozenset()  # clauses, by number; what is met stays met
    tail: Phrase = ()  # the longest end of the text that begins a phrase; it holds every shorter such end


class _Place(NamedTuple):
    """What a tail means: phrases that end here, those begun or not yet, tokens that would complete a banned one."""

    meets: frozenset[int]
    begun: tuple[tuple[int, int, Phrase], ...]  # clause, tokens read (0: none yet), tokens still to come
    bans: frozenset[int]


@dataclass(frozen=True)
class Clauses:
    """Each clause is an OR of phrases that must come, or one phrase that must not."""

    clauses: tuple[tuple[Literal, ...], ...] = ()

    def __post_init__(self) -> None:
        for number, clause in enumerate(self.clauses):
            if not clause:
                raise ColdError(f"clause {number} is empty, so nothing can meet it: give it a phrase or leave it out")
            for phrase, _ in clause:
                if not phrase or min(phrase[phrase[0] == START :], default=-1) < 0:
                    raise ColdError(f"{phrase} in clause {number} is no phrase: give at least one token id from 0 up")
            signs = {positive for _, positive in clause}
            if len(signs) > 1:
                raise ColdError(f"clause {number} both asks for and bans a phrase: make a clause of each")
            if signs == {False} and len(clause) > 1:
                raise ColdError(f"clause {number} bans {len(clause)} phrases at once: make a clause of each")

    @property
    def start(self) -> State:
        """Nothing is written yet."""
        return self.advance(State(), START)

    @cached_property
    def sizes(self) -> dict[int, int]:
        """Tokens of each clause that asks for something, in its shortest form."""
        numbers = [number for number, clause in enumerate(self.clauses) if clause[0].positive]
        return {n: min(len(_bare(phrase)) for phrase, _ in self.clauses[n]) for n in numbers}

    def advance(self, state: State, token: int) -> State:
        tail = (*state.tail, token)
        while tail not in self._places:  # the empty one is there
            tail = tail[1:]
        return State(state.met | self._places[tail].meets, tail)

    def satisfied(self, state: State) -> bool:
        return len(state.met) == len(self.sizes)

    def next_tokens(self, state: State) -> list[int]:
        """Tokens that start or continue a phrase of a clause not yet met."""
        return list(dict.fromkeys(rest[0] for _, _, rest in self._begun(state) if rest[0] != START))

    def forbidden(self, state: State) -> frozenset[int]:
        """Tokens that would complete a banned phrase."""
        return self._places[state.tail].bans

    def progress(self, state: State) -> float:
        """The largest part of an unmet phrase that stands at the end of the text."""
        return max((read / (read + len(rest)) for _, read, rest in self._begun(state) if read), default=0.0)

    def covered(self, state: State) -> int:
        """Tokens of the clauses met, and of the one that is half written."""
        begun = (self.sizes[clause] - len(rest) for clause, read, rest in self._begun(state) if read)
        return sum(self.sizes[clause] for clause in state.met) + max([0, *begun])

    def missing(self, state: State) -> list[tuple[Phrase, bool]]:
        """Every way to meet a clause not yet met: the tokens still to come, and whether they must come at once."""
        ways = {(rest, read > 0) for _, read, rest in self._begun(state) if rest[0] != START}
        return sorted(ways)

    def _begun(self, state: State) -> Iterator[tuple[int, int, Phrase]]:
        return (entry for entry in self._places[state.tail].begun if entry[0] not in state.met)

    @cached_property
    def _places(self) -> dict[Phrase, _Place]:
        phrases = [phrase for clause in self.clauses for phrase, _ in clause]
        tails = {phrase[:n] for phrase in phrases for n in range(len(phrase) + 1)} | {()}
        return {tail: self._place(tail) for tail in tails}

    def _place(self, tail: Phrase) -> _Place:
        meets, begun, bans = set(), [], set()
        for number, phrase, positive, read in self._matches(tail):
            rest = phrase[read:]
            if positive and rest:
                begun.append((number, len(_bare(phrase[:read])), rest))
            elif positive:
                meets.add(number)
            elif len(rest) == 1:
                bans.add(rest[0])
        return _Place(frozenset(meets), tuple(begun), frozenset(bans))

    def _matches(self, tail: Phrase) -> Iterator[tuple[int, Phrase, bool, int]]:
        """Every phrase with every number of its first tokens that the tail ends with: overlaps are all there."""
        for number, clause in enumerate(self.clauses):
            for phrase, positive in clause:
                for read in range(min(len(tail), len(phrase)) + 1):
                    if tail[len(tail) - read :] == phrase[:read]:
                        yield number, phrase, positive, read


def _bare(phrase: Phrase) -> Phrase:
    return phrase[1:] if phrase[:1] == (START,) else phrase
