"""For Hugging Face users: `model.generate(ids, custom_generate=cold_generate, right="...")`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from cold.errors import ColdError
from cold.lm.model import LanguageModel
from cold.lm.partner import find_partner
from cold.recipes import preset
from cold.tasks import examples
from cold.tasks.solve import decode


def cold_generate(
    model: Any,
    input_ids: Tensor,
    words: Sequence[str] = (),
    right: str = "",
    ending: str = "",
    preset_name: str = "fast",
    samples: int | None = None,
    steps: int | None = None,
    seed: int = 0,
    cold_tokenizer: Any = None,
    **ignored: Any,
) -> Tensor:
    """Continue one prompt under a constraint and return prompt + text as ids [1, tokens], as `generate` does.

    Give one of: `words` to contain, a `right` text to lead to, or an `ending` to stay close to. With `words` the
    prompt is the left context itself; transformers' own generation options play no part. The tokenizer is the one
    beside the model, or `cold_tokenizer` (`generate` keeps an argument called tokenizer for itself).
    """
    if input_ids.shape[0] != 1:
        raise ColdError(f"cold_generate takes one prompt at a time, not {input_ids.shape[0]}: call it in a loop")
    if sum(map(bool, (words, right, ending))) != 1:
        raise ColdError("cold_generate needs one constraint: words=[...], right='...' or ending='...'")
    name = model.config.name_or_path
    tokenizer = cold_tokenizer or _tokenizer(name)
    lm = LanguageModel(model, tokenizer, name or "model")
    prompt = str(tokenizer.decode(input_ids[0], skip_special_tokens=True))
    if words:
        task, example = "lexical", examples.lexical(words)
    elif right:
        task, example = "abductive", examples.abductive(prompt, right)
    else:
        task, example = "counterfactual", examples.counterfactual(prompt, ending)
    recipe = preset(task, preset_name).with_(samples=samples, steps=steps, seed=seed)
    if words and prompt.strip():
        literal = prompt.replace("{", "{{").replace("}", "}}")
        story = {**recipe.contexts["story"], "left": literal}
        recipe = recipe.with_(contexts={**recipe.contexts, "story": story}, style=())
    with torch.enable_grad():  # generate() itself runs without gradients
        partner = find_partner(lm, recipe.reverse if recipe.reads_reverse else None)
        found = decode(recipe, lm, partner.reverse, [example])[0]
    text = lm.encode_after(" " + found.text)
    return torch.cat([input_ids, torch.tensor([text], device=input_ids.device, dtype=input_ids.dtype)], 1)


def _tokenizer(name: str) -> Any:
    from transformers import AutoTokenizer

    try:
        if not name:  # made in memory: there is no place to look
            raise ValueError(name)
        return AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise ColdError(f"there is no tokenizer beside model {name!r}: give one with cold_tokenizer=") from error
