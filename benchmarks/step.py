"""One Langevin step: milliseconds, samples a second, memory, the computed limit and the ratio to it.

    python -m benchmarks.step --shape gpt2-xl --samples 16 --samples 32 --json step.json
    python -m benchmarks.step --shape gpt2-medium --energy counterfactual --length 20 --samples 32 --steps 2000

The abductive energy has the paper's four terms and a right-to-left LM of the same size; the counterfactual one reads
no right text. Models have random weights. `literal` is the paper's loop transcribed (benchmarks/literal.py), in fp32;
`eager` is ours without the recorded graph. The limit is the larger of operations over the rate of a large matrix
product and bytes over the rate of a large copy, both measured in the same run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.literal import Literal
from benchmarks.shapes import SHAPES, make, multiplied
from cold.constraints import Energy, Fluency, Future, Similarity
from cold.lm.context import Context
from cold.lm.load import choose_device, choose_dtype
from cold.sampling.graph import Track
from cold.sampling.langevin import Langevin
from cold.sampling.noise import Rows
from cold.sampling.schedules import constant

LEFT, RIGHT, WORDS = 12, 11, 4  # tokens
GROUP = 5  # steps timed together: between the steps of a run nobody waits for the device
WEIGHTS = {
    "abductive": {"fluency": 0.30, "fluency_reverse": 0.20, "future": 0.48, "similarity": 0.02},
    "counterfactual": {"fluency": 0.64, "fluency_reverse": 0.16, "similarity": 0.20},
}


HEADER = (
    f"{'shape':12} {'samples':>7} {'graph ms':>9} {'eager ms':>9} {'literal ms':>10} {'speed-up':>8} "
    f"{'limit ms':>9} {'ratio':>6} {'GiB':>5} {'samples/s':>10} {'s/sample':>9}"
)


class Machine(NamedTuple):
    """What the device does at best, measured."""

    flops: float  # a second
    bytes: float  # a second, read and written


def measure_machine(device: torch.device, dtype: torch.dtype) -> Machine:
    size = 8192 if device.type == "cuda" else 1024
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in "ab")
    product = seconds(lambda: a @ b, device, 10)
    block = torch.empty(1 << (30 if device.type == "cuda" else 26), dtype=torch.uint8, device=device)
    other = torch.empty_like(block)
    copy = seconds(lambda: other.copy_(block), device, 10)
    return Machine(2 * size**3 / product, 2 * block.numel() / copy)


def seconds(work: Callable[[], Any], device: torch.device, repeats: int) -> float:
    """Median of single runs, after two to warm up."""
    times = []
    for number in range(repeats + 2):
        wait(device)
        begun = time.perf_counter()
        work()
        wait(device)
        times += [time.perf_counter() - begun] if number >= 2 else []
    return statistics.median(times)


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def limit(shape: str, energy: str, samples: int, length: int, dtype: torch.dtype, machine: Machine) -> float:
    """Seconds that a step cannot beat: forward and backward through both LMs, the soft embedding and the head.

    Operations: two for each weight and token, forward and again backward (inputs alone). Bytes: every weight read once
    in each direction.
    """
    layers, table = multiplied(shape)
    behind = RIGHT if energy == "abductive" else 0
    work = 0.0
    for tokens, said in ((length + max(behind - 1, -1), length + behind), (length - 1, length)):
        work += 4 * samples * (tokens * layers + (length + said) * table)
    size = torch.empty(0, dtype=dtype).element_size()
    return max(work / machine.flops, 4 * (layers + table) * size / machine.bytes)


def build(energy: str, forward: Any, backward: Any, texts: dict[str, Tensor]) -> Energy:
    ids = {name: part.tolist() for name, part in texts.items()}
    behind = ids["right"] if energy == "abductive" else [[]]
    story = Context(forward, left=ids["left"], right=behind, separator=False)
    back = Context(backward, right=ids["right"], separator=False)
    terms = {
        "fluency": Fluency(story),
        "fluency_reverse": Fluency(back, name="fluency_reverse"),
        "similarity": Similarity(ids["words"]),
    }
    if energy == "abductive":
        terms["future"] = Future(story)
    total = Energy(())
    for name, weight in WEIGHTS[energy].items():
        total = total + weight * terms[name]
    return total


def measure(
    args: argparse.Namespace, samples: int, models: tuple[Any, ...], machine: Machine, ways: Sequence[str] = ()
) -> dict[str, Any]:
    device, forward, backward = args.place, *models
    draw = torch.Generator().manual_seed(0)
    texts = {
        name: torch.randint(1, forward.vocab, (1, size), generator=draw)
        for name, size in (("left", args.left), ("right", RIGHT), ("words", WORDS))
    }
    y = torch.randn(samples, args.length, forward.vocab, generator=draw).to(device)
    sampler = Langevin(0.1, constant(0.1))
    bound = build(args.energy, forward, backward, texts).bind(samples, args.length)
    rows, steps = Rows(range(samples), device), args.steps + 5 * GROUP
    found: dict[str, Any] = {"shape": args.shape, "energy": args.energy, "samples": samples, "length": args.length}
    found |= {"left": args.left, "dtype": args.dtype, "steps": args.steps}
    for way in ways or (("eager", "graph") if device.type == "cuda" else ("eager",)):
        if device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        state = sampler.init(y, bound)
        state, _ = sampler.step(state, bound, rows.at(0), sampler.scales(0))
        track = Track(sampler, bound, rows, steps)
        track.plain = way == "eager"
        state, _ = track.step(state)
        held = [state]

        def advance(track: Track = track, held: list[Any] = held) -> None:
            for _ in range(GROUP):
                held[0] = track.step(held[0])[0]

        found[way] = seconds(advance, device, max(1, args.steps // GROUP)) / GROUP
        if way == "graph" and track.graph is None:
            found[way] = None
        if device.type == "cuda":
            found["memory_gib"] = torch.cuda.max_memory_allocated() / 2**30
    best = found.get("graph") or found["eager"]
    found["limit"] = limit(args.shape, args.energy, samples, args.length, args.kind, machine)
    found |= {"ratio": best / found["limit"], "seconds_a_sample": best * args.total / samples}
    return found


def literal(args: argparse.Namespace, samples: int) -> float:
    """The same step as the paper writes it, with models of its own in fp32."""
    device = args.place
    forward, backward = (make(args.shape, device, torch.float32, way).model for way in (False, True))
    vocab = forward.get_input_embeddings().weight.shape[0]
    left, right, words = (torch.randint(1, vocab, (1, n), device=device) for n in (args.left, RIGHT, WORDS))
    spread = [part.expand(samples, -1) for part in (left, right, words)]
    chain = Literal(forward, backward, spread, WEIGHTS[args.energy])
    held = [torch.randn(samples, args.length, vocab, device=device)]

    def advance() -> None:
        held[0] = chain.step(held[0], 0.1, 0.1)

    return seconds(advance, device, 3)


def profile(args: argparse.Namespace, models: tuple[Any, Any], samples: int) -> None:
    """A trace of five steps for Perfetto (ui.perfetto.dev) or chrome://tracing."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as watch

    kinds = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if args.place.type == "cuda" else [])
    args.steps = 5
    with watch(activities=kinds) as seen:
        measure(args, samples, models, Machine(1.0, 1.0))
    print(
        seen.key_averages().table(sort_by=f"self_{args.place.type}_time_total", row_limit=30, max_name_column_width=60)
    )
    seen.export_chrome_trace(str(args.profile))
    print(f"{args.profile}: open it with Perfetto")


def main(argv: list[str] | None = None) -> list[dict[str, Any]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="gpt2-small", choices=list(SHAPES))
    parser.add_argument("--energy", default="abductive", choices=list(WEIGHTS))
    parser.add_argument("--samples", type=int, action="append", help="repeatable; 16 unless given")
    parser.add_argument("--length", type=int, default=10, help="soft tokens")
    parser.add_argument("--left", type=int, default=LEFT, help="tokens of the left context")
    parser.add_argument("--steps", type=int, default=30, help="how many are timed")
    parser.add_argument("--total", type=int, default=2000, help="steps of a whole decoding, for seconds a sample")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--no-literal", action="store_true", help="leave the transcribed loop out")
    parser.add_argument("--json", type=Path, help="write the numbers here too")
    parser.add_argument("--profile", type=Path, metavar="FILE.json", help="write a trace for Perfetto and stop")
    args = parser.parse_args(argv)
    args.place = choose_device(args.device)
    args.kind = choose_dtype(args.dtype, args.place)
    args.dtype = str(args.kind).removeprefix("torch.")
    samples = args.samples or [16]
    models = tuple(make(args.shape, args.place, args.kind, way) for way in (False, True))
    if args.profile:
        profile(args, models, samples[0])  # type: ignore[arg-type]
        return []
    machine = measure_machine(args.place, args.kind)
    print(f"{args.place}, {args.dtype}: {machine.flops / 1e12:.1f} TFLOP/s, {machine.bytes / 1e9:.0f} GB/s")
    print(HEADER)
    found = []
    for count in samples:
        row = measure(args, count, models, machine)  # type: ignore[arg-type]
        row["literal"] = None if args.no_literal else literal(args, count)
        row |= {"tflops": machine.flops / 1e12, "gb_per_second": machine.bytes / 1e9, "device": str(args.place)}
        found.append(row)
        print(line(row, args.total), flush=True)
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")
    return found


def line(row: dict[str, Any], total: int) -> str:
    best = row.get("graph") or row["eager"]
    show = lambda value: "-" if value is None else f"{value * 1e3:.2f}"  # noqa: E731
    gain = "-" if row.get("literal") is None else f"{row['literal'] / best:.1f} x"
    memory = f"{row['memory_gib']:.1f}" if "memory_gib" in row else "-"
    return (f"{row['shape']:12} {row['samples']:7} {show(row.get('graph')):>9} {show(row.get('eager')):>9} "
            f"{show(row.get('literal')):>10} {gain:>8} {show(row['limit']):>9} {row['ratio']:6.2f} {memory:>5} "
            f"{row['samples'] / (best * total):10.4f} {row['seconds_a_sample']:9.3f}")  # fmt: skip


if __name__ == "__main__":
    main()
