"""A decoding as text for people and as one JSON object for programs."""

from __future__ import annotations

import json

from cold.decoder import Decoding
from cold.evaluation.record import describe_sample, plain, setting
from cold.lm.model import LanguageModel
from cold.recipes import Job, Recipe

SCHEMA_VERSION = 1


def as_text(found: Decoding, clock: dict[str, float]) -> str:
    """The best text on a line of its own, then all samples, best first."""
    lines = [found.text, ""]
    for rank, index in enumerate(found.order, 1):
        sample = found.samples[index]
        terms = "  ".join(f"{name} {score.text:.2f}" for name, score in sample.terms.items())
        seen = {name: value for name, value in sample.selection.items() if value}  # no news is good
        chosen = "  ".join(f"{name} {value:.4g}" for name, value in seen.items())
        lines += [f"{rank}. {sample.text}", f"   energy {sample.energy:.2f}  ({terms})  {chosen}"]
    loading, decoding = clock["loaded"] - clock["start"], clock["done"] - clock["loaded"]
    lines.append(f"\n{decoding:.0f} s, after {loading:.0f} s of loading")
    return "\n".join(lines)


def as_json(
    task: str, recipe: Recipe, job: Job, found: Decoding, clock: dict[str, float], reverse: LanguageModel | None
) -> str:
    report = {
        "schema_version": SCHEMA_VERSION,
        "task": task,
        "configuration": {**recipe.tables(), "texts": vars(job.problems.examples[0])},
        **setting(job.problems.lm, reverse),
        "seed": recipe.seed,
        "notes": list(job.notes),
        "steps_done": len(found.trace),
        "best": {"sample": found.order[0], "text": found.text, "energy": found.best.energy},
        "order": found.order,
        "samples": [describe_sample(sample) for sample in found.samples],
        "timings": {
            "load_s": clock["loaded"] - clock["start"],
            "sample_s": clock["sampled"] - clock["loaded"],
            "finish_s": clock["done"] - clock["sampled"],
        },
    }
    return json.dumps(plain(report), ensure_ascii=False, indent=2, allow_nan=False)
