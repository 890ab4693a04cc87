"""Text from the partner itself: y ~ p(y | a few example stories, an opening), thousands of rows at once.

    python -m training.sample --model smollm2 --out build/samples --minutes 5

Rows that follow the same examples share the examples' keys and values: attention has two parts, one over the shared
prompt and one over the row's own tokens. On a GPU each step is one captured graph. Llama-like models only; for others
`transformers.generate` does the same more slowly.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from cold.lm.load import load
from cold.lm.model import LanguageModel
from training.recipe import HERE, read_recipe

BUCKET = 64  # a graph is captured for every 64 tokens of own cache


class Prompts:
    """Few-shot prompts: `shots` examples, one a line, and the first words of the next line; 0: the words alone."""

    def __init__(self, lm: LanguageModel, shots: dict[str, int], openings: Path | None, seed: int) -> None:
        self.lm, self.shots, self.rng = lm, shots, random.Random(seed)
        self.examples = {kind: _lines(HERE / "prompts" / f"{kind}.txt") for kind in shots}
        stories = _lines(HERE / "prompts" / "openings.txt")
        scenes = _lines(openings) if openings else self.examples["sentences"]
        scenes = [" ".join(scene.split()[: 1 + i % 3]) for i, scene in enumerate(scenes)]
        self.openings = {"stories": [lm.encode(o) for o in stories], "sentences": [lm.encode(o) for o in scenes]}

    def draw(self, kind: str, rows: int) -> tuple[list[int], list[list[int]]]:
        """Ids of one prompt, and of `rows` openings."""
        examples = self.rng.sample(self.examples[kind], self.shots[kind])
        shown = self.lm.encode("\n".join(examples) + "\n") if examples else []
        return [self.lm.separator, *shown], [self.rng.choice(self.openings[kind]) for _ in range(rows)]


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line.strip()]


class Writer:
    """Writes `new` tokens in every row of [groups, rows]; the rows of a group share a prompt."""

    def __init__(self, lm: LanguageModel, groups: int, rows: int, new: int, temperature: float) -> None:
        self.core, self.config, self.device = lm.model.model, lm.model.config, lm.device
        fused = torch.compile if lm.device.type == "cuda" else (lambda function: function)
        self.rotate, self.mix, self.draw = fused(_rotate), fused(_mix), fused(_draw)
        self.head, self.banned = lm.model.get_output_embeddings().weight, lm.banned.clone()
        self.banned[lm.separator] = False  # the end of a text is part of it
        self.groups, self.rows, self.new, self.temperature = groups, rows, new, temperature
        config, total = self.config, groups * rows
        self.kv, self.width = config.num_key_value_heads, config.head_dim
        make = lambda *shape: torch.zeros(shape, dtype=lm.dtype, device=lm.device)  # noqa: E731
        self.own = [tuple(make(total, self.kv, new, self.width) for _ in "kv") for _ in self.core.layers]
        self.shared: list[tuple[Tensor, Tensor]] = []
        self.size = 0  # of the shared prompts, padded
        # A line goes on for `least` tokens at least.
        breaks = [i for i, text in enumerate(lm.token_strings) if "\n" in text]
        self.breaks = torch.tensor([*breaks, lm.separator], device=lm.device)
        self.ends = torch.zeros_like(lm.banned).index_fill(0, self.breaks, True)
        self.least = torch.zeros(total, dtype=torch.long, device=lm.device)
        self.since = torch.zeros(total, dtype=torch.long, device=lm.device)
        self.token = torch.zeros(total, dtype=torch.long, device=lm.device)
        self.forced = torch.zeros(new + 1, total, dtype=torch.long, device=lm.device)
        self.written = torch.zeros(new, total, dtype=torch.long, device=lm.device)
        self.at = torch.zeros(1, dtype=torch.long, device=lm.device)
        self.graphs: dict[int, Any] = {}

    @torch.no_grad()
    def __call__(self, prompts: list[list[int]], openings: list[list[int]], least: list[int]) -> Tensor:
        """Ids [groups * rows, new], openings included; no line of group i has fewer than least[i] tokens."""
        self._read_prompts(prompts)
        self.least.copy_(torch.tensor(least).repeat_interleave(self.rows))
        self.since.zero_()
        self.forced.fill_(-1)
        table = torch.full((len(openings), max(map(len, openings))), -1)
        for row, opening in enumerate(openings):
            table[row, : len(opening)] = torch.tensor(opening)
        self.forced[: table.shape[1]] = table.T.to(self.device)
        self.token.copy_(self.forced[0])
        self.at.zero_()
        for step in range(self.new):
            self._advance(min(self.new, (step // BUCKET + 1) * BUCKET))
        return self.written.T

    def _read_prompts(self, prompts: list[list[int]]) -> None:
        self.size = size = max(self.size, 64 * -(-max(map(len, prompts)) // 64))  # grows seldom: graphs stay true
        ids = torch.tensor([p + [0] * (size - len(p)) for p in prompts], device=self.device)
        self.lengths = torch.tensor([len(p) for p in prompts], device=self.device)
        cache = self.core(input_ids=ids, use_cache=True).past_key_values  # causal: padding behind changes nothing
        fresh = [(layer.keys, layer.values) for layer in cache.layers]
        hidden = torch.arange(size, device=self.device) >= self.lengths[:, None]
        mask = torch.zeros(hidden.shape, device=self.device).masked_fill(hidden, -1e9)
        if not self.shared or self.shared[0][0].shape != fresh[0][0].shape:
            self.shared, self.shared_mask, self.offset = fresh, mask, self.lengths.repeat_interleave(self.rows)
            self.graphs.clear()  # their addresses are gone
            return
        for (k, v), (new_k, new_v) in zip(self.shared, fresh, strict=True):
            k.copy_(new_k)
            v.copy_(new_v)
        self.shared_mask.copy_(mask)
        self.offset.copy_(self.lengths.repeat_interleave(self.rows))

    def _advance(self, reach: int) -> None:
        if self.device.type != "cuda":
            return self._step(reach)
        if reach not in self.graphs:
            kept = [(state, state.clone()) for state in (self.token, self.at, self.since)]
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                self._step(reach)  # warm-up outside the capture
            torch.cuda.current_stream().wait_stream(stream)
            self.graphs[reach] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graphs[reach]):
                self._step(reach)
            for state, value in kept:
                state.copy_(value)
        self.graphs[reach].replay()
        return None

    def _step(self, reach: int) -> None:
        """One token for every row, from its own first `reach` cache places and the shared prompt."""
        self.written.index_copy_(0, self.at, self.token[None])
        x = self.core.embed_tokens(self.token)
        cos, sin = self.core.rotary_emb(x, (self.offset + self.at)[:, None])
        later = torch.arange(reach, device=self.device) > self.at
        own_mask = torch.zeros(reach, device=self.device).masked_fill(later, -1e9)
        for layer, own, shared in zip(self.core.layers, self.own, self.shared, strict=True):
            h = self._norm(layer.input_layernorm, x)
            q, k, v = (
                self._heads(p(h)) for p in (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj)
            )
            q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
            own[0].index_copy_(2, self.at, k[:, :, None])
            own[1].index_copy_(2, self.at, v[:, :, None])
            x = x + layer.self_attn.o_proj(self._attend(q, own, shared, own_mask, reach))
            x = x + layer.mlp(self._norm(layer.post_attention_layernorm, x))
        logits = F.linear(self._norm(self.core.norm, x), self.head)
        early = (self.since < self.least)[:, None]
        logits[:, self.breaks] = logits[:, self.breaks].masked_fill(early, -torch.inf)
        noise = torch.empty(logits.shape, device=self.device).exponential_()
        drawn = self.draw(logits, noise, self.banned, self.temperature)
        self.at.add_(1)
        wanted = self.forced.index_select(0, self.at)[0]
        self.token.copy_(torch.where(wanted >= 0, wanted, drawn))
        over = self.ends[self.token]
        self.since.copy_((self.since + 1).masked_fill(over, 0))

    def _norm(self, norm: Any, x: Tensor) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], norm.weight, self.config.rms_norm_eps)

    def _heads(self, x: Tensor) -> Tensor:
        return x.view(x.shape[0], -1, self.width)

    def _attend(
        self, q: Tensor, own: tuple[Tensor, ...], shared: tuple[Tensor, Tensor], mask: Tensor, reach: int
    ) -> Tensor:
        """Queries that share a key head stand in line as its query positions; the softmax runs over both parts."""
        total, each = q.shape[0], q.shape[1] // self.kv
        q = q.view(total, self.kv, each, self.width) * self.width**-0.5
        mine = q @ own[0][:, :, :reach].transpose(-1, -2)
        grouped = q.view(self.groups, self.rows, self.kv, each, self.width).transpose(1, 2)
        grouped = grouped.reshape(self.groups, self.kv, self.rows * each, self.width)
        common = grouped @ shared[0].transpose(-1, -2)
        common, mine = self.mix(common, mine, self.shared_mask, mask)
        grouped = common @ shared[1]
        out = grouped.view(self.groups, self.kv, self.rows, each, self.width).transpose(1, 2)
        out = out.reshape(total, self.kv, each, self.width) + mine @ own[1][:, :, :reach]
        return out.reshape(total, -1)


def _mix(common: Tensor, mine: Tensor, common_mask: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """One softmax over both parts; `common` comes and goes as [groups, heads, rows * each, prompt]."""
    groups, heads = common.shape[:2]
    total, _, each, _ = mine.shape
    rows = total // groups
    left = (common.float() + common_mask[:, None, None]).view(groups, heads, rows, each, -1)
    right = (mine.float() + mask).view(groups, rows, heads, each, -1).transpose(1, 2)
    top = torch.maximum(left.amax(-1, keepdim=True), right.amax(-1, keepdim=True))
    left, right = (left - top).exp(), (right - top).exp()
    whole = left.sum(-1, keepdim=True) + right.sum(-1, keepdim=True)
    left, right = (left / whole).to(mine.dtype), (right / whole).to(mine.dtype)
    return left.flatten(2, 3), right.transpose(1, 2).reshape(mine.shape)


def _draw(logits: Tensor, noise: Tensor, banned: Tensor, temperature: float) -> Tensor:
    """Gumbel's trick: argmax of logits / T - log(exponential noise) follows softmax(logits / T)."""
    return (logits.float() / temperature).masked_fill(banned, -torch.inf).sub(noise.log()).argmax(-1)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat([-right, left], -1) * sin


class Generate:
    """The same for models that are not Llamas, by the library: every row reads its prompt again."""

    def __init__(self, lm: LanguageModel, groups: int, rows: int, new: int, temperature: float) -> None:
        self.lm, self.rows, self.new, self.temperature = lm, rows, new, temperature

    @torch.no_grad()
    def __call__(self, prompts: list[list[int]], openings: list[list[int]], least: list[int]) -> Tensor:
        ids = [prompts[row // self.rows] + opening for row, opening in enumerate(openings)]
        size, sep = max(map(len, ids)), self.lm.separator
        padded = torch.tensor([[sep] * (size - len(row)) + row for row in ids], device=self.lm.device)
        mask = torch.tensor([[0] * (size - len(row)) + [1] * len(row) for row in ids], device=self.lm.device)
        out = self.lm.model.generate(
            padded, attention_mask=mask, do_sample=True, temperature=self.temperature, top_k=0, max_new_tokens=self.new,
            suppress_tokens=[i for i in self.lm.banned.nonzero().flatten().tolist() if i != sep],
            eos_token_id=sep, pad_token_id=sep, min_new_tokens=min(least),
        )  # fmt: skip
        news = out[:, size:]
        longest = max(map(len, openings))
        texts = torch.full((len(ids), longest + news.shape[1]), sep, device=self.lm.device)
        for row, opening in enumerate(openings):
            texts[row, : len(opening)] = torch.tensor(opening)
            texts[row, len(opening) : len(opening) + news.shape[1]] = news[row]
        return texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2", help="a name, a folder or a hub id")
    parser.add_argument(
        "--out", type=Path, required=True, help="folder for the samples; more are added to what is there"
    )
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=10**9, help="stop after this many rounds")
    parser.add_argument("--openings", type=Path, help="sentences whose first words open the plain sentences")
    parser.add_argument("--seed", type=int, default=0, help="another one for another folder")
    parser.add_argument("--recipe", type=Path)
    args = parser.parse_args()
    recipe = read_recipe(args.recipe).sampling
    lm = load(args.model, dtype="bfloat16" if torch.cuda.is_available() else "float32")
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "temperature.txt").write_text(f"{recipe.temperature}\n")
    first = len(list(args.out.glob("round-*.npy")))
    torch.manual_seed(args.seed + first)
    prompts = Prompts(lm, recipe.shots, args.openings, args.seed + first)
    kind = Writer if lm.model.config.model_type == "llama" else Generate
    writer = kind(lm, recipe.groups, recipe.rows, recipe.new, recipe.temperature)
    start, tokens = time.monotonic(), 0
    for number in range(first, first + args.rounds):
        kinds = ["sentences" if group % 8 == 7 else "stories" for group in range(recipe.groups)]
        drawn = [prompts.draw(kind, recipe.rows) for kind in kinds]
        openings = [opening for _, row in drawn for opening in row]
        ids = writer([prompt for prompt, _ in drawn], openings, [recipe.least[kind] for kind in kinds])
        np.save(
            args.out / f"round-{number:04d}.npy",
            ids.cpu().numpy().astype(np.uint16 if lm.vocab < 1 << 16 else np.uint32),
        )
        tokens += ids.numel()
        spent = time.monotonic() - start
        if number % 10 == first % 10:
            print(f"round {number}  {tokens / 1e6:.1f} M tokens  {tokens / spent:,.0f} tokens/s", flush=True)
        if spent > args.minutes * 60:
            break
    print(f"{number + 1 - first} rounds, {tokens / 1e6:.1f} M tokens in {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
