"""A frozen causal language model that reads soft tokens: weighted averages of its word embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from cold.errors import ColdError
from cold.kernels import mean_row, wide_product
from cold.lm.attention import NAME
from cold.lm.layers import fuse

KeyValues = tuple[tuple[Tensor, Tensor], ...]  # per layer: keys and values, each [rows, heads, tokens, width]

DOCUMENT_SEPARATOR = "<|endoftext|>"  # SmolLM2's <bos> opens a chat turn; its documents are parted by this


def separator_of(tokenizer: Any, name: str) -> int:
    known = tokenizer.get_vocab()
    for token in (DOCUMENT_SEPARATOR, tokenizer.bos_token, tokenizer.eos_token):
        if token in known:
            return int(known[token])
    raise ColdError(f"the tokenizer of {name!r} has no separator: give it a bos_token or an eos_token")


def _cache(past: KeyValues) -> DynamicCache:
    """A cache around what was read; handed over in the library's own way, it would be copied once more every step."""
    cache = DynamicCache()
    for keys, values in past:
        layer: Any = DynamicLayer()
        layer.keys, layer.values, layer.dtype, layer.device = keys, values, keys.dtype, keys.device
        layer.is_initialized = True
        cache.layers.append(layer)
    return cache


def aligned(matrix: Tensor, size: int) -> Tensor:
    """With rows of zeros below, so that their number is a multiple of `size`."""
    return F.pad(matrix, (0, 0, 0, -len(matrix) % size)) if len(matrix) % size else matrix


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """Hugging Face model + tokenizer, frozen. `reverse` marks a right-to-left LM over the same vocabulary.

    `first_id` is the model's own id of our token 0: the right-to-left GPT-2 of the paper shifts its ids by one.
    """

    model: Any = field(repr=False)
    tokenizer: Any = field(default=None, repr=False)
    name: str = "unnamed"
    reverse: bool = False
    first_id: int = 0
    vocab: int = 0  # 0: as wide as the model's output
    fingerprint: str = ""

    def __post_init__(self) -> None:
        self.model.eval().requires_grad_(False)
        fuse(self.model)
        width = self.model.get_output_embeddings().weight.shape[0] - self.first_id
        object.__setattr__(self, "vocab", self.vocab or width)
        _ = self.embedding_scale  # fails here, not in the middle of a run

    @property
    def device(self) -> torch.device:
        device: torch.device = self.table.device
        return device

    @property
    def dtype(self) -> torch.dtype:
        return self.table.dtype

    @cached_property
    def table(self) -> Tensor:
        """The input embeddings of our vocabulary [vocab, width]; a view, also when the output layer is tied."""
        weight: Tensor = self.model.get_input_embeddings().weight
        return weight[self.first_id : self.first_id + self.vocab]

    @cached_property
    def embedding_scale(self) -> float:
        """Gemma multiplies its embeddings; measured on a few tokens rather than known by model name."""
        probe = torch.arange(1, min(5, self.vocab), device=self.table.device)
        out = self.model.get_input_embeddings()(probe + self.first_id).float()
        rows = self.table[probe].float()
        scale = float((out * rows).sum() / (rows * rows).sum().clamp(min=1e-12))
        if not torch.allclose(out, rows * scale, rtol=2e-2, atol=1e-4):
            raise ColdError(f"model {self.name!r} does not embed tokens linearly, so it cannot read soft tokens")
        return scale

    @cached_property
    def window(self) -> int:
        """The most tokens the model can read."""
        config = self.model.config.get_text_config()
        return int(getattr(config, "max_position_embeddings", None) or 1 << 20)

    @cached_property
    def slides(self) -> bool:
        """Whether some layer looks back only so far, which a mask of ours would not know."""
        config = self.model.config.get_text_config()
        kinds = getattr(config, "layer_types", None) or []
        return bool(getattr(config, "sliding_window", None)) or any("full" not in str(kind) for kind in kinds)

    @cached_property
    def looks_ahead(self) -> bool:
        """Whether a text read before can be handed to the attention as it is (`states_behind`). Found by trying."""
        usual = getattr(self.model.config, "_attn_implementation", "")
        if self.slides or usual not in ("sdpa", NAME):
            return False
        if self._reads_ahead():
            return True
        self.model.set_attn_implementation(usual)
        return False

    def _reads_ahead(self) -> bool:
        """Four tokens at once, and two of them behind the other two: the same states?"""
        try:
            self.model.set_attn_implementation(NAME)
            probe = self.embed(torch.arange(4, device=self.device)[None] % self.vocab)
            at = torch.arange(4, device=self.device)[None]
            with torch.no_grad():
                wanted, _ = self.states(probe, (), torch.ones_like(at), at)
                _, past = self.states(probe[:, :2], (), torch.ones_like(at[:, :2]), at[:, :2])
                mask = torch.zeros(1, 1, 2, 4, dtype=self.dtype, device=self.device)
                mask[..., 0, 3] = torch.finfo(self.dtype).min
                found = self.states_behind(probe[:, 2:], past, mask, at[:, 2:])
        except (TypeError, ValueError, AttributeError, RuntimeError, IndexError):  # a model that is built differently
            return False
        apart = (found - wanted[:, 2:]).float().norm() / wanted[:, 2:].float().norm()
        return bool(apart < (1e-3 if self.dtype == torch.float32 else 0.1))

    @cached_property
    def separator(self) -> int:
        """The token between documents: the start of everything, since an LM cannot predict from nothing."""
        return 0 if self.tokenizer is None else separator_of(self.tokenizer, self.name)

    @cached_property
    def banned(self) -> Tensor:
        """Tokens that never belong into a text [vocab]: special ones, and padding of the embedding table."""
        banned = torch.zeros(self.vocab, dtype=torch.bool, device=self.device)
        if self.tokenizer is not None:
            banned[len(self.tokenizer) :] = True
            special = {i for i, t in self.tokenizer.added_tokens_decoder.items() if t.special}
            banned[sorted(i for i in special | set(self.tokenizer.all_special_ids) if i < self.vocab)] = True
        return banned

    # -- text ------------------------------------------------------------------------------------------------

    def encode(self, text: str) -> list[int]:
        """Ids of a text that opens a document, without any special token."""
        return list(self.tokenizer.encode(text, add_special_tokens=False)) if text else []

    def encode_after(self, text: str, before: str = ".") -> list[int]:
        """Ids of `text` as it continues `before`: for SentencePiece tokenizers not those of the text alone."""
        anchor = self.encode(before)
        ids = self.encode(before + text)
        return ids[len(anchor) :] if ids[: len(anchor)] == anchor else self.encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))

    @cached_property
    def token_strings(self) -> list[str]:
        """What each token adds to a text that already has some; '' for what never belongs into one."""
        anchor = self.encode(".")
        lead = len(self.decode(anchor))
        size = min(self.vocab, len(self.tokenizer))
        banned = self.banned.tolist()
        texts = self.tokenizer.batch_decode([[*anchor, i] for i in range(size)], clean_up_tokenization_spaces=False)
        return ["" if banned[i] else text[lead:] for i, text in enumerate(texts)] + [""] * (self.vocab - size)

    # -- reading ---------------------------------------------------------------------------------------------

    def embed(self, ids: Tensor) -> Tensor:
        out: Tensor = self.model.get_input_embeddings()(ids + self.first_id)
        return out

    def embed_soft(self, probs: Tensor, ids: Tensor | None = None) -> Tensor:
        """The expected embedding sum_v p(v) e_v [batch, length, width]; `ids` [..., k]: which v, if not all."""
        if ids is None:
            return mean_row(probs, self._aligned_table) * self.embedding_scale
        rows = self.table[ids]  # [batch, length, k, width]
        return (probs.to(self.dtype)[..., None, :] @ rows)[..., 0, :] * self.embedding_scale

    def read(self, embeds: Tensor, past: KeyValues, mask: Tensor, positions: Tensor) -> tuple[Tensor, KeyValues]:
        """Next-token logits in fp32 after each input, and the keys and values of everything read so far."""
        states, known = self.states(embeds, past, mask, positions)
        return self.logits(states), known

    def states(self, embeds: Tensor, past: KeyValues, mask: Tensor, positions: Tensor) -> tuple[Tensor, KeyValues]:
        """What `logits` needs of each input, and the keys and values of everything read so far.

        A cache that is handed in is changed by the library, so each call gets one of its own around `past`.
        """
        cache = _cache(past)
        out = self._reader(
            inputs_embeds=embeds, past_key_values=cache, attention_mask=mask, position_ids=positions, use_cache=True
        )
        return self._states_of(out), tuple((layer.keys, layer.values) for layer in cache.layers)

    def states_behind(self, embeds: Tensor, past: KeyValues, mask: Tensor, positions: Tensor) -> Tensor:
        """The same for a step: nothing new is remembered, and a text of `past` may serve several rows of embeds.

        `mask` [rows, 1, tokens, all] is added to the attention's scores.
        """
        out = self._reader(
            inputs_embeds=embeds, attention_mask=mask, position_ids=positions, use_cache=False, ahead=past
        )
        return self._states_of(out)

    @property
    def _reader(self) -> Any:
        return self.model.base_model if self.plain_head else self.model

    def _states_of(self, out: Any) -> Tensor:
        states: Tensor = out.last_hidden_state if self.plain_head else out.logits
        return states

    def logits(self, states: Tensor) -> Tensor:
        """Next-token logits in fp32."""
        if self.plain_head:  # flat: a product with a slice of a batch would copy the whole head for every row
            flat, head = states.flatten(0, -2), self.model.get_output_embeddings()
            if getattr(head, "bias", None) is None:
                weight = head.weight if self._aligned_head is None else self._aligned_head
                said = wide_product(flat, weight, self.first_id, self.vocab)
                return said.view(*states.shape[:-1], self.vocab)
            states = head(flat).view(*states.shape[:-1], len(head.weight))
        return states[..., self.first_id : self.first_id + self.vocab].float()

    @property
    def align(self) -> int:
        """A GPU multiplies matrices twice as fast when the vocabulary is a multiple of this."""
        return 64 if self.device.type == "cuda" else 1

    @cached_property
    def _aligned_table(self) -> Tensor:
        return aligned(self.table, self.align)

    @cached_property
    def _aligned_head(self) -> Tensor | None:
        """None: the head as it is."""
        head = self.model.get_output_embeddings()
        if len(head.weight) % self.align == 0:
            return None
        tied = self.first_id == 0 and head.weight.data_ptr() == self.table.data_ptr() and len(head.weight) == self.vocab
        return self._aligned_table if tied else aligned(head.weight, self.align)

    @cached_property
    def plain_head(self) -> bool:
        """Whether the logits are the head's product with the last states; Gemma caps them. Found by trying."""
        base = getattr(self.model, "base_model", self.model)
        if base is self.model:
            return False
        probe = torch.zeros(1, 2, dtype=torch.long, device=self.device) + self.first_id
        with torch.no_grad():
            wanted = self.model(input_ids=probe).logits
            found = self.model.get_output_embeddings()(base(input_ids=probe).last_hidden_state)
        return found.shape == wanted.shape and torch.allclose(found.float(), wanted.float(), rtol=1e-3, atol=1e-3)
