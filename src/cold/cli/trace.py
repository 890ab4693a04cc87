"""The chain in pictures or numbers: each term, the energy, the entropy and gradient against noise, over the steps."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from cold.errors import ColdError
from cold.recipes import Job, Recipe
from cold.sampling.diagnostics import Info


def write_trace(path: Path, recipe: Recipe, job: Job, trace: list[Info]) -> None:
    if path.suffix == ".json":
        path.write_text(json.dumps(_numbers(job, trace), indent=1) + "\n", encoding="utf-8")
    else:
        _draw(path, recipe, job, trace)


def _numbers(job: Job, trace: list[Info]) -> dict[str, object]:
    """Per step and sample; what is costly to see only at the steps that were watched."""
    energy = job.problems.energy
    return {
        "terms": dict(zip(energy.names, energy.weights, strict=True)),
        "steps": [
            {
                "step": info.step,
                "energy": info.energy.tolist(),
                "scores": dict(zip(energy.names, info.scores.tolist(), strict=True)),
                "gradient": info.gradient.tolist(),
                "term_gradients": None
                if info.term_gradients is None
                else dict(zip(energy.names, info.term_gradients.tolist(), strict=True)),
                "entropy": None if info.entropy is None else info.entropy.tolist(),
                "drift_to_noise": None
                if info.drift_to_noise is None
                else [v if v < float("inf") else None for v in info.drift_to_noise.tolist()],
            }
            for info in trace
        ],
    }


def _draw(path: Path, recipe: Recipe, job: Job, trace: list[Info]) -> None:
    try:
        import matplotlib
    except ImportError as error:
        raise ColdError('a PNG trace needs matplotlib: pip install "cold-decoding[plots]", or use .json') from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    energy, steps = job.problems.energy, [info.step for info in trace]
    scores = torch.stack([info.scores for info in trace])  # [steps, terms, rows]
    figure, (top, middle, bottom) = pyplot.subplots(3, 1, figsize=(8, 9), sharex=True, height_ratios=(2, 1, 1))
    for number, (name, weight) in enumerate(zip(energy.names, energy.weights, strict=True)):
        cost = -weight * scores[:, number]
        (line,) = top.plot(steps, cost.mean(1).tolist(), label=f"{name} (weight {weight:g})")
        top.fill_between(steps, cost.amin(1).tolist(), cost.amax(1).tolist(), color=line.get_color(), alpha=0.15)
    top.plot(steps, [float(info.energy.mean()) for info in trace], "k", lw=2, label="energy")
    top.set_ylabel("weighted term, -weight x score")
    top.legend(loc="upper right", fontsize="small")
    top.set_title(f"{recipe.source}: mean and range over {recipe.samples} samples")
    seen = [info for info in trace if info.entropy is not None and info.drift_to_noise is not None]
    watched = [info.step for info in seen]
    middle.plot(
        watched, [float(info.entropy.mean()) for info in seen if info.entropy is not None], ".-", color="tab:green"
    )
    middle.set_ylabel("entropy of softmax(y), nats")
    ratios = [float(info.drift_to_noise.mean()) for info in seen if info.drift_to_noise is not None]
    bottom.plot(watched, ratios, ".-", color="tab:red")
    bottom.set_yscale("log")
    bottom.set_ylabel("|gradient move| / |noise|")
    bottom.set_xlabel("step")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
