"""The other decoders: the same call as ours, the same samples, the same selection."""

from cold.baselines.base import Baseline, Writer
from cold.baselines.delorean import Delorean
from cold.baselines.left_only import LeftOnly
from cold.baselines.prompt import Prompt

BASELINES: dict[str, Baseline] = {
    "left-only": Baseline(LeftOnly()),
    "left-only-greedy": Baseline(LeftOnly(greedy=True), single=True),
    "left-only-top-k": Baseline(LeftOnly(top_k=40)),
    "left-only-nucleus": Baseline(LeftOnly(top_p=0.9)),
    "delorean": Baseline(Delorean()),
    "prompt": Baseline(Prompt()),
}

__all__ = ["BASELINES", "Baseline", "Delorean", "LeftOnly", "Prompt", "Writer"]
