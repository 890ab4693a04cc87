"""Lexically constrained beam search: banks by constraint tokens covered (Hokamp and Liu; Post and Vilar)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cold.baselines.hypotheses import Hypothesis, Limits
from cold.baselines.phrases import script_of, write
from cold.baselines.search import Search, read_on
from cold.lm.model import LanguageModel
from cold.text.clauses import Clauses
from cold.text.problems import Problems


@dataclass(frozen=True)
class ConstrainedBeam(Limits):
    """The grid beam with dynamic allocation: the banks share the beam, and what one cannot use goes to the others.

    A clause may be met by any of its phrases (Li et al. 2020); texts are ranked by mean log-probability.
    """

    length_penalty: float = 1.0
    banned: tuple[str, ...] = ()

    def __call__(self, problems: Problems, reverse: LanguageModel | None, seeds: Sequence[int]) -> list[str]:
        search = Search(self, script_of(problems.lm), self.choose, read_on)
        return write(search, problems, len(seeds), self.banned)

    def choose(self, clauses: Clauses, found: Sequence[Hypothesis], count: int) -> list[Hypothesis]:
        """The best of every bank, as many as it may have, the fullest bank first."""
        banks: dict[int, list[Hypothesis]] = {}
        bank = {state: clauses.covered(state) for state in {h.state for h in found}}
        for hypothesis in sorted(found, key=lambda h: h.logp, reverse=True):
            banks.setdefault(bank[hypothesis.state], []).append(hypothesis)
        number = sum(clauses.sizes.values()) + 1
        shares = allocate({bank: len(held) for bank, held in banks.items()}, number, count)
        return [hypothesis for bank, share in shares.items() for hypothesis in banks[bank][:share]]


def allocate(held: dict[int, int], number: int, count: int) -> dict[int, int]:
    """Places for each bank, given what it holds: even shares of `count`, then what is left to the fullest first."""
    fullest = sorted(held, reverse=True)
    shares = {bank: min(held[bank], count // number) for bank in fullest}
    left = count - sum(shares.values())
    for bank in fullest:
        more = min(held[bank] - shares[bank], left)
        shares[bank] += more
        left -= more
    return shares
