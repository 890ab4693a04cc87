"""A decoding as text for people and as one JSON object for programs."""

from __future__ import annotations

import json
import math
import platform
from typing import Any

import cold
from cold.decoder import Decoding, Sample
from cold.lm.model import LanguageModel
from cold.recipes import Job, Recipe

SCHEMA_VERSION = 1


def as_text(found: Decoding, clock: dict[str, float]) -> str:
    """The best text on a line of its own, then all samples, best first."""
    lines = [found.text, ""]
    for rank, index in enumerate(found.order, 1):
        sample = found.samples[index]
        terms = "  ".join(f"{name} {score.text:.2f}" for name, score in sample.terms.items())
        chosen = "  ".join(f"{name} {value:.4g}" for name, value in sample.selection.items())
        lines += [f"{rank}. {sample.text}", f"   energy {sample.energy:.2f}  ({terms})  {chosen}"]
    loading, decoding = clock["loaded"] - clock["start"], clock["done"] - clock["loaded"]
    lines.append(f"\n{decoding:.0f} s, after {loading:.0f} s of loading")
    return "\n".join(lines)


def as_json(
    task: str, recipe: Recipe, job: Job, found: Decoding, clock: dict[str, float], reverse: LanguageModel | None
) -> str:
    import numpy
    import torch
    import transformers

    report = {
        "schema_version": SCHEMA_VERSION,
        "task": task,
        "configuration": {**recipe.tables(), "texts": vars(job.problems.examples[0])},
        "versions": {
            "cold": cold.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "numpy": numpy.__version__,
        },
        "model": describe(job.problems.lm),
        "reverse": describe(reverse) if reverse else None,
        "dtype": str(job.problems.lm.dtype).removeprefix("torch."),
        "device": str(job.problems.lm.device),
        "seed": recipe.seed,
        "notes": list(job.notes),
        "steps_done": len(found.trace),
        "best": {"sample": found.order[0], "text": found.text, "energy": found.best.energy},
        "order": found.order,
        "samples": [_sample(sample) for sample in found.samples],
        "timings": {
            "load_s": clock["loaded"] - clock["start"],
            "sample_s": clock["sampled"] - clock["loaded"],
            "finish_s": clock["done"] - clock["sampled"],
        },
    }
    return json.dumps(_plain(report), ensure_ascii=False, indent=2, allow_nan=False)


def describe(lm: LanguageModel) -> dict[str, Any]:
    parameters = sum(p.numel() for p in lm.model.parameters())
    return {"name": lm.name, "hash": lm.fingerprint, "parameters": parameters, "vocabulary": lm.vocab}


def _sample(sample: Sample) -> dict[str, Any]:
    terms = {name: {"weight": s.weight, "soft": s.soft, "text": s.text} for name, s in sample.terms.items()}
    return {
        "text": sample.text,
        "energy": sample.energy,
        "soft_energy": sample.soft_energy,
        "terms": terms,
        "selection": sample.selection,
    }


def _plain(value: Any) -> Any:
    """Tuples become lists and numbers that JSON lacks become null."""
    if isinstance(value, dict):
        return {key: _plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
