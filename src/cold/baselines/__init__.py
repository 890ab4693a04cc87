"""The other decoders: the same call as ours, the same samples, the same selection."""

from cold.baselines import cgmh, tsmh
from cold.baselines.base import Baseline, Writer
from cold.baselines.cgmh import CGMH
from cold.baselines.constrained_beam import ConstrainedBeam
from cold.baselines.delorean import Delorean
from cold.baselines.left_only import LeftOnly, LeftOnlyBeam
from cold.baselines.mix_and_match import MixAndMatch
from cold.baselines.neurologic import NeuroLogic
from cold.baselines.prompt import Prompt
from cold.baselines.tsmh import TSMH

BASELINES: dict[str, Baseline] = {
    "left-only": Baseline(LeftOnly()),
    "left-only-greedy": Baseline(LeftOnly(greedy=True), single=True),
    "left-only-beam": Baseline(LeftOnlyBeam(), single=True),
    "left-only-top-k": Baseline(LeftOnly(top_k=40)),
    "left-only-nucleus": Baseline(LeftOnly(top_p=0.9)),
    "delorean": Baseline(Delorean()),
    "neurologic": Baseline(NeuroLogic()),
    "neurologic-astar": Baseline(NeuroLogic(look_ahead=5)),
    "constrained-beam": Baseline(ConstrainedBeam()),
    "cgmh": Baseline(CGMH(), reads_reverse=True),
    "cgmh-released": Baseline(CGMH(heuristic=cgmh.RELEASED), reads_reverse=True),
    "tsmh": Baseline(TSMH(), reads_reverse=True),
    "tsmh-released": Baseline(TSMH(heuristic=tsmh.RELEASED), reads_reverse=True),
    "mix-and-match": Baseline(MixAndMatch(), reads_reverse=True),
    "prompt": Baseline(Prompt()),
}

__all__ = [
    "BASELINES",
    "CGMH",
    "TSMH",
    "Baseline",
    "ConstrainedBeam",
    "Delorean",
    "LeftOnly",
    "LeftOnlyBeam",
    "MixAndMatch",
    "NeuroLogic",
    "Prompt",
    "Writer",
]
