"""Many examples in full batches: texts of like length together, as many rows as the memory holds."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Container, Iterator, Sequence
from functools import partial

import torch

from cold.decoder import Decoding
from cold.errors import ColdError
from cold.lm.model import LanguageModel
from cold.recipes import Recipe, listed
from cold.tasks.solve import decode
from cold.text.problems import Example

Method = Callable[[Recipe, LanguageModel, LanguageModel | None, Sequence[Example]], list[Decoding]]

log = logging.getLogger("cold")

SHARE = 0.6  # of the memory; the rest is for weights, the beam and what libraries keep
WIDE, DEEP = 14, 30  # numbers kept for each logit of a row, and for each of a layer's states: counted, not measured
MOST_ON_CPU = 32  # rows: more gain nothing there


def decode_many(
    recipe: Recipe,
    lm: LanguageModel,
    reverse: LanguageModel | None,
    examples: Sequence[Example],
    memory: int | None = None,
) -> Iterator[tuple[int, Decoding]]:
    """Each example's number and decoding, a batch at a time, in the order of the plan.

    The plan depends on the examples, the recipe and `memory` (bytes; the device's own unless given), so the same call
    gives the same texts. If the device runs out of memory, the batch is halved and the rest goes on.
    """
    for batch, found in decode_batches(recipe, lm, reverse, examples, memory):
        yield from zip(batch, found, strict=True)


def decode_batches(
    recipe: Recipe,
    lm: LanguageModel,
    reverse: LanguageModel | None,
    examples: Sequence[Example],
    memory: int | None = None,
    method: Method | None = None,
    skip: Container[int] = (),
) -> Iterator[tuple[list[int], list[Decoding]]]:
    """The same, a whole batch at a time, by any method.

    Batches whose numbers are all in `skip` are left out; others are decoded whole, as a text may depend on its batch.
    """
    batches = plan(recipe, lm, examples, memory or device_memory(lm.device))[::-1]
    todo = [batch for batch in batches if not all(i in skip for i in batch)]
    method = method or decode
    if method is decode and todo and (kept := listed(recipe, lm, examples)):
        method = partial(decode, kept=kept)  # one list for all, so that no text depends on its batch
    while todo:
        batch = todo.pop()
        try:
            found = method(recipe, lm, reverse, [examples[i] for i in batch])
        except torch.OutOfMemoryError as error:
            if len(batch) == 1:
                raise ColdError(
                    f"example {batch[0]} alone does not fit into the memory of {lm.device}: "
                    "take fewer samples, a shorter length or --dtype bfloat16"
                ) from error
            log.warning("%d examples do not fit into the memory of %s: trying half as many", len(batch), lm.device)
            half = len(batch) // 2
            todo += [batch[half:], batch[:half]]
            found = None
        if found is None:  # outside of the handler, which holds on to the tensors of the attempt
            if lm.device.type == "cuda":
                torch.cuda.empty_cache()
            continue
        yield batch, found


def plan(recipe: Recipe, lm: LanguageModel, examples: Sequence[Example], memory: int) -> list[list[int]]:
    """Numbers of examples, batch by batch: sorted by length, so that little is padding; largest first."""
    sizes = [_tokens(lm, example) for example in examples]
    order = sorted(range(len(examples)), key=lambda i: (_kind(examples[i]), -sum(sizes[i]), -sizes[i][0], i))
    batches: list[list[int]] = []
    for i in order:
        if batches and _kind(examples[batches[-1][0]]) == _kind(examples[i]):
            left, right = (max(sizes[k][side] for k in (batches[-1][0], i)) for side in (0, 1))
            if len(batches[-1]) < _room(recipe, lm, left, right, memory):
                batches[-1].append(i)
                continue
        batches.append([i])
    return batches


def device_memory(device: torch.device) -> int:
    """All of it, not what is free just now: a plan must not depend on the neighbours."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _room(recipe: Recipe, lm: LanguageModel, left: int, right: int, memory: int) -> int:
    """How many examples fit."""
    config = lm.model.config.get_text_config()
    deep = config.num_hidden_layers * config.hidden_size
    style = sum(len(lm.encode(text)) for text in recipe.style)
    logits = WIDE * (recipe.length + right) * lm.vocab * 4
    states = DEEP * (recipe.length + right) * deep * 4 + 2 * (style + left) * deep * 4
    weights = sum(p.numel() * p.element_size() for p in lm.model.parameters())
    rows = int((SHARE * memory - 2 * weights) / (logits + states))
    if lm.device.type == "cpu":
        rows = min(rows, MOST_ON_CPU)
    return max(1, rows // recipe.samples)


def _tokens(lm: LanguageModel, example: Example) -> tuple[int, int]:
    return len(lm.encode(example.left)), len(lm.encode(example.right))


def _kind(example: Example) -> tuple[bool, ...]:
    """Examples of one kind have the same terms; one without keywords loses a term, and must not cost the others it."""
    return bool(example.keywords), bool(example.right), bool(example.ending), bool(example.words)
