"""Which runs the paper's tables are made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cold.recipes import preset

TASKS = ("abductive", "counterfactual", "lexical")
ABLATED = "abductive"  # the task of the paper's ablations
ABLATION_EXAMPLES = 125  # as many as the paper took
TOP_K = (2, 5, 10, 50, 100)


# The decoders that each task is compared with; chains take few examples.
QUICK = {
    "abductive": ("delorean", "prompt"),
    "counterfactual": ("delorean", "prompt"),
    "lexical": ("neurologic", "neurologic-astar", "constrained-beam", "prompt"),
}
CHAINS = {
    "abductive": (),
    "counterfactual": ("mix-and-match",),
    "lexical": ("tsmh", "cgmh", "tsmh-released", "cgmh-released"),
}


class Arm(NamedTuple):
    """One run, and how many examples it takes at most."""

    name: str
    task: str
    limit: int
    method: str = "cold"
    preset: str = "fast"
    without: tuple[str, ...] = ()
    top_k: int | None = None


def arms(limit: int, few: int) -> Iterator[Arm]:
    """Everything, short runs first: `limit` examples each, `few` for chains and for presets of 2,000 steps."""
    for method in ("left-only-greedy", "left-only"):
        yield from (Arm(f"{task}-{method}", task, limit, method) for task in TASKS)
    yield from (Arm(f"{task}-fast", task, limit) for task in TASKS)
    yield from (Arm(f"{task}-{method}", task, limit, method) for task in TASKS for method in QUICK[task])
    yield from (Arm(f"{task}-{method}", task, min(limit, few), method) for task in TASKS for method in CHAINS[task])
    count = min(limit, ABLATION_EXAMPLES)
    if count < limit:
        yield Arm(f"{ABLATED}-fast-{count}", ABLATED, count)
    for term in preset(ABLATED, "fast").term_names:
        yield Arm(f"{ABLATED}-fast-without-{term}", ABLATED, count, without=(term,))
    yield from (Arm(f"{ABLATED}-fast-k{k}", ABLATED, count, top_k=k) for k in TOP_K)
    for name in ("released", "paper"):
        yield from (Arm(f"{task}-{name}", task, min(limit, few), preset=name) for task in TASKS)
