"""How likely an LM finds texts after what it has read: what they share is read once and, on a GPU, never copied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from cold.kernels import chosen
from cold.lm.context import causal_mask
from cold.lm.model import LanguageModel
from cold.lm.prefix import Prefix
from cold.soft import expand, pad

TOKENS, ON_CPU = 1 << 16, 1 << 12  # read together: a GPU has enough to do, and texts of like length meet
LOGITS, IN_CACHE = 1 << 28, 1 << 22  # numbers looked at together, on a GPU and on a CPU


class Gapped(NamedTuple):
    """Texts left + token + right that differ in one token."""

    left: Sequence[int]
    tokens: Sequence[int]
    right: Sequence[int]


@torch.no_grad()
def grow(prefix: Prefix, texts: Sequence[Sequence[int]]) -> tuple[Prefix, Tensor]:
    """Each row's prefix with its own text behind it, and the states before each token [rows, tokens + 1, width]."""
    assert prefix.states is not None
    if not any(texts):
        return prefix, prefix.states[:, None]
    ids, there = pad(texts, prefix.mask.device)
    positions = prefix.lengths[:, None] + torch.arange(ids.shape[1], device=ids.device)
    mask = torch.cat([prefix.mask, there.long()], 1)
    states, past = prefix.lm.states(prefix.lm.embed(ids), prefix.past, mask, positions)
    states = torch.cat([prefix.states[:, None], states], 1)
    last = states[torch.arange(len(texts), device=ids.device), there.sum(1)]
    return Prefix(prefix.lm, past, mask, last), states


def next_logits(prefix: Prefix, texts: Sequence[Sequence[int]]) -> Tensor:
    """Of the token behind each row's prefix and text [rows, vocab], fp32."""
    logits = grow(prefix, texts)[0].logits
    assert logits is not None
    return logits


def log_likelihood(prefix: Prefix, texts: Sequence[Sequence[int]]) -> Tensor:
    """Summed log-probability of each row's ids behind its prefix, in fp32 [rows]; texts may differ in length."""
    return likelihoods(prefix, range(len(texts)), texts)


@torch.no_grad()
def likelihoods(prefix: Prefix, index: Sequence[int], texts: Sequence[Sequence[int]]) -> Tensor:
    """The log-probability of each text behind its own one of the prefixes."""
    groups: dict[int, list[int]] = {}
    for number, row in enumerate(index):
        groups.setdefault(row, []).append(number)
    members = list(groups.values())
    found = torch.zeros(len(texts), device=prefix.mask.device)
    for some in _parts(prefix.lm, [(len(group), max(len(texts[n]) for n in group)) for group in members]):
        most = max(len(members[g]) for g in some)
        rows = [n for g in some for n in [*members[g], *members[g][:1] * (most - len(members[g]))]]
        real = [i * most + k for i, g in enumerate(some) for k in range(len(members[g]))]
        ids, there = pad([texts[n] for n in rows], found.device)
        values = _behind(prefix.select([index[members[g][0]] for g in some]), ids, there)
        found[[rows[i] for i in real]] = values[real]
    return found


@torch.no_grad()
def fillings(prefix: Prefix, index: Sequence[int], texts: Sequence[Gapped]) -> list[list[float]]:
    """The log-probability of each text of each family, whose left part is read only once."""
    grown, states = grow(prefix.select(index), [text.left for text in texts])
    begun = _own(prefix.lm, states[:, :-1], *pad([text.left for text in texts], states.device))
    found: dict[int, list[float]] = {}
    for some in _parts(prefix.lm, [(len(text.tokens), 1 + len(text.right)) for text in texts]):
        tokens, real = pad([texts[n].tokens for n in some], states.device)  # families of one size, some filled up
        right, there = pad([texts[n].right for n in some], states.device)
        most = tokens.shape[1]
        ids = torch.cat([tokens.flatten()[:, None], expand(right, tokens.numel())], 1)
        there = torch.cat([torch.ones_like(ids[:, :1], dtype=torch.bool), expand(there, tokens.numel())], 1)
        totals = begun[some, None] + _behind(grown.select(some), ids, there).view(-1, most)
        sizes = real.sum(1).tolist()
        found |= {n: row[:size] for n, row, size in zip(some, totals.double().tolist(), sizes, strict=True)}
    return [found[n] for n in range(len(texts))]


def _behind(prefix: Prefix, ids: Tensor, there: Tensor) -> Tensor:
    """Of texts [rows, tokens] behind prefixes of which neighbouring rows share one."""
    lm, rows = prefix.lm, len(ids)
    if not ids.shape[1]:
        return torch.zeros(rows, device=ids.device)
    assert prefix.states is not None
    assert prefix.logits is not None
    first = prefix.logits.log_softmax(-1).gather(1, ids[:, 0].view(prefix.rows, -1)).flatten() * there[:, 0]
    if ids.shape[1] == 1:
        return first
    tokens = ids.shape[1] - 1  # the last one is not read
    mask = torch.cat([expand(prefix.mask, rows), there[:, :-1].long()], 1)
    positions = expand(prefix.lengths, rows)[:, None] + torch.arange(tokens, device=ids.device)
    if lm.looks_ahead:
        seen = causal_mask(mask, tokens, lm.dtype)
        states = lm.states_behind(lm.embed(ids[:, :-1]), prefix.past, seen, positions)
    else:
        share = torch.arange(prefix.rows, device=ids.device).repeat_interleave(rows // prefix.rows)
        states, _ = lm.states(lm.embed(ids[:, :-1]), prefix.select(share).past, mask, positions)
    return first + _own(lm, states, ids[:, 1:], there[:, 1:])


def _own(lm: LanguageModel, states: Tensor, ids: Tensor, there: Tensor) -> Tensor:
    """What each row's states say of its tokens, added up [rows]; the vocabulary is looked at for real tokens only."""
    at, found = there.nonzero(as_tuple=True), torch.zeros(ids.shape, device=states.device)
    some = max(1, (LOGITS if lm.device.type == "cuda" else IN_CACHE) // lm.vocab)
    parts = [torch.split(part, some) for part in (states[at], ids[at])]
    if len(at[0]):
        found[at] = torch.cat([chosen(lm.logits(s)[None], i[None])[0] for s, i in zip(*parts, strict=True)])
    return found.sum(1)


def _parts(lm: LanguageModel, sizes: Sequence[tuple[int, int]]) -> Iterator[list[int]]:
    """Families of (texts, tokens) that are read together: those of like size, filled up to the largest."""
    room = TOKENS if lm.device.type == "cuda" else ON_CPU
    part, most, longest = list[int](), 0, 0
    for n in sorted(range(len(sizes)), key=lambda n: sizes[n][::-1]):
        most, longest = max(most, sizes[n][0]), max(longest, sizes[n][1])
        if part and (len(part) + 1) * most * longest > room:
            yield part
            part, (most, longest) = [], sizes[n]
        part.append(n)
    if part:
        yield part
