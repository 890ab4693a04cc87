"""Train the recipe's network in short legs that resume from disk.

    python -m training.train --partner smollm2 --data build/data --out build/reverse --direction reverse --minutes 9

The stream is read forwards, backwards, or with tokens hidden (masked: every place sees its whole document, and the loss
is taken where a token is hidden). A leg ends by the clock or with the last step and leaves layers.safetensors and
table.safetensors (to travel), optimizer.pt (to go on from on the same machine) and log.jsonl. A leg that finds no
optimizer state warms it up again. The table is the partner's; one direction may teach it (--teach-table) and the others
take it over (--table).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor

from cold.lm.load import load
from cold.lm.model import LanguageModel
from training import network
from training.evaluate import bits_per_character, read_texts
from training.head import Head, chunk_loss
from training.recipe import read_recipe

LOG, VALIDATE = 50, 500  # steps


class Stream:
    """Windows that begin with a document; a document sees only itself."""

    def __init__(
        self, ids: np.ndarray, temperatures: np.ndarray, separator: int, window: int, device: torch.device
    ) -> None:
        self.ids = torch.from_numpy(ids.astype(np.int32)).to(device)
        self.temperatures = torch.from_numpy(temperatures.astype(np.float32)).to(device)
        starts = (self.ids == separator).nonzero()[:, 0]
        self.starts = starts[starts + window + 1 < len(ids)]
        if not len(self.starts):
            raise SystemExit(f"the data has {len(ids)} tokens, less than one window of {window}: prepare more text")
        self.separator, self.offsets = separator, torch.arange(window + 1, device=device)

    def draw(self, rows: int, random: torch.Generator) -> tuple[Tensor, Tensor]:
        """Windows and the temperatures of their documents, both [rows, window + 1]."""
        pick = torch.randint(len(self.starts), (rows,), generator=random, device=self.ids.device)
        windows = self.ids[self.starts[pick, None] + self.offsets].long()
        document = (
            pick[:, None] + (windows == self.separator).cumsum(1) - 1
        )  # every document has one separator before it
        return windows, self.temperatures[document.clamp(max=len(self.temperatures) - 1)]

    def sees(self, windows: Tensor, causal: bool) -> Tensor:
        """[rows, 1, window, window]: who may look at whom."""
        document = (windows == self.separator).cumsum(1)
        same = document[:, :, None] == document[:, None, :]
        return (same.tril() if causal else same)[:, None]


def hide(windows: Tensor, share: float, mask_id: int, separator: int, random: torch.Generator) -> tuple[Tensor, Tensor]:
    """The windows with a share of their tokens replaced by `mask_id`, and where in the flattened windows that was.

    Always the same number of tokens, wherever they fall, so that a compiled loss sees one shape; a document of n tokens
    loses about share * n of them, which for a sentence is one or two.
    """
    draw = torch.rand(windows.shape, generator=random, device=windows.device).masked_fill(windows == separator, 2.0)
    at = draw.flatten().topk(max(1, round(share * windows.numel())), largest=False, sorted=False).indices
    return windows.flatten().index_fill(0, at, mask_id).view_as(windows), at


def mask_token(lm: LanguageModel) -> int:
    """A special token that no text contains, for a vocabulary that has no mask: its row of the table is the mask's."""
    if lm.tokenizer.mask_token_id is not None:
        return int(lm.tokenizer.mask_token_id)
    special = sorted(i for i in lm.tokenizer.all_special_ids if i != lm.separator)
    return int(special[-1] if special else lm.separator)


def read_data(folders: Sequence[Path]) -> tuple[np.ndarray, np.ndarray]:
    """The streams one behind the other, and the temperature of each document."""
    streams = [np.load(folder / "ids.npy") for folder in folders]
    ids = np.concatenate([streams[0], *(stream[1:] for stream in streams[1:])])  # one separator between documents
    return ids, np.concatenate([np.load(folder / "temperatures.npy") for folder in folders])


def optimizers(model: Any, rows: Tensor | None, recipe: SimpleNamespace) -> list[torch.optim.Optimizer]:
    trained = [p for p in model.parameters() if p.requires_grad]
    matrices, rest = [p for p in trained if p.ndim == 2], [p for p in trained if p.ndim != 2]
    # match_rms_adamw: steps as long as Adam's, so that one step size serves both.
    muon = torch.optim.Muon(
        matrices, lr=recipe.step_size, weight_decay=recipe.weight_decay, adjust_lr_fn="match_rms_adamw"
    )
    groups: list[dict[str, Any]] = [{"params": rest}]
    if rows is not None:
        groups.append({"params": [rows], "scale": recipe.table_step})
    return [muon, torch.optim.AdamW(groups, lr=recipe.step_size, betas=(0.9, 0.95), weight_decay=0.0)]


class Leg:
    """One stretch of training, from whatever lies in the folder."""

    def __init__(self, args: argparse.Namespace, partner: LanguageModel) -> None:
        recipe = read_recipe(args.recipe)
        recipe.model.layers = args.layers or recipe.model.layers
        self.args, self.partner, self.recipe, self.device = args, partner, recipe.training, partner.device
        ids, heats = read_data(args.data)
        self.reverse = args.direction == "reverse"
        args.out.mkdir(parents=True, exist_ok=True)
        self.table_file = args.out / "table.safetensors"
        if args.table:
            shutil.copyfile(args.table, self.table_file)
        elif not self.table_file.exists():
            network.make_table(partner, ids, recipe.model, self.table_file)
        table = network.read_table(self.table_file)
        self.model = network.build(table, recipe.model, partner.separator, args.direction)
        if args.borrow:
            network.borrow(self.model, partner.model)
        self.state = {"step": 0, "tokens": 0, "seconds": 0.0}
        self._resume()
        self.model.to(self.device)
        self.taught = network.taught_words(self.table_file).to(self.device) if args.teach_table else None
        self.base = self.model.get_input_embeddings().weight.detach()  # [words, width]; shown to the model as it stands
        self.rows = None if self.taught is None else torch.nn.Parameter(self.base[self.taught])
        self.optimizers = optimizers(self.model, self.rows, self.recipe)
        self.warm = self._resume_optimizers()
        way = -1 if self.reverse else 1
        self.stream = Stream(ids[::way], heats[::way], partner.separator, recipe.model.window, self.device)
        gpu = self.device.type == "cuda"
        compiled = torch.compile if gpu and not args.eager else (lambda function: function)
        self.trunk, self.kernel = compiled(self.model.model), compiled(chunk_loss)
        self.wide = torch.bfloat16 if gpu else torch.float32
        self.random = torch.Generator(self.device).manual_seed(self.recipe.seed + self.state["step"])
        self.texts = read_texts(args.validate) if args.validate else []
        self.mask_id = mask_token(partner)
        self.begun = time.monotonic()

    def _resume(self) -> None:
        layers = self.args.out / "layers.safetensors"
        if self.args.start and not layers.exists():  # layers beyond those of the start begin by changing nothing
            self.model.model.load_state_dict(load_file(self.args.start / "layers.safetensors"), strict=False)
        if layers.exists():
            self.model.model.load_state_dict(load_file(layers), strict=False)
            self.state = json.loads((self.args.out / "state.json").read_text())

    def _resume_optimizers(self) -> bool:
        file = self.args.out / "optimizer.pt"
        if not file.exists():
            return False
        for optimizer, state in zip(self.optimizers, torch.load(file, weights_only=True), strict=True):
            optimizer.load_state_dict(state)
        return True

    def save(self) -> None:
        """Each file whole or not at all: a leg may be cut short."""
        out = self.args.out
        layers = {name: w.detach().float().cpu().contiguous() for name, w in network.layers_of(self.model).items()}
        save_file(layers, out / "layers.new")
        if self.rows is not None:
            network.write_table(out / "table.new", self.table_file, self.rows)
            os.replace(out / "table.new", self.table_file)
        torch.save([optimizer.state_dict() for optimizer in self.optimizers], out / "optimizer.new")
        (out / "state.new").write_text(json.dumps(self.state))
        for new, name in (
            ("layers.new", "layers.safetensors"),
            ("optimizer.new", "optimizer.pt"),
            ("state.new", "state.json"),
        ):
            os.replace(out / new, out / name)
        self.model.config.save_pretrained(out)

    def loss(self) -> Tensor:
        windows, heats = self.stream.draw(self.recipe.rows, self.random)
        causal = self.args.direction != "masked"
        inputs, targets = windows[:, :-1], windows[:, 1:]
        sees = self.stream.sees(inputs, causal)
        if not causal:
            targets = inputs
            inputs, at = hide(inputs, self.recipe.masked, self.mask_id, self.partner.separator, self.random)
        table = self.base if self.rows is None else self.base.index_copy(0, self.taught, self.rows)
        words, head = F.embedding(inputs, table), table.detach().to(self.wide)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            states = self.trunk(inputs_embeds=words, attention_mask=sees, use_cache=False).last_hidden_state
        # A text drawn at temperature T follows softmax(logits / T): so learned, the logits are those of T = 1.
        states, targets = (states / heats[:, :-1, None]).flatten(0, 1), targets.flatten()
        if not causal:
            states, targets = states[at], targets[at]
        return Head.apply(states, self.rows, head, self.taught, targets, self.kernel)

    def progress(self) -> float:
        """From 0 to 1, by steps or, with --seconds, by the clock where that is ahead; the step size falls with it."""
        steps, spent = self.state["step"] / self.recipe.steps, time.monotonic() - self.begun
        return max(steps, spent / self.args.seconds) if self.args.seconds else steps

    def step(self, since: int) -> Tensor:
        ramp = 1.0 if self.warm else min(1.0, (since + 1) / self.recipe.warmup)
        size = self.recipe.step_size * ramp * max(0.0, 1 - self.progress())
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        for group in self._groups():
            group["lr"] = size * group.get("scale", 1.0)
        loss = self.loss()
        loss.backward()
        torch.nn.utils.clip_grad_norm_([p for group in self._groups() for p in group["params"]], self.recipe.clip)
        for optimizer in self.optimizers:
            optimizer.step()
        self.state["step"] += 1
        self.state["tokens"] += self.recipe.rows * (len(self.stream.offsets) - 1)
        return loss.detach()

    def _groups(self) -> list[dict[str, Any]]:
        return [group for optimizer in self.optimizers for group in optimizer.param_groups]

    def validate(self) -> float | None:
        if not self.texts or self.args.direction == "masked":
            return None
        if self.rows is not None:
            self.base[self.taught] = self.rows.detach()
        ids = [self.partner.encode(text) for text in self.texts]
        return bits_per_character(
            self.model.eval(), ids, sum(map(len, self.texts)), self.partner.separator, self.reverse
        )[0]

    def run(self) -> None:
        begun, clock, losses = self.begun, self.begun, []
        for since in range(self.recipe.steps - self.state["step"]):
            if self.progress() >= 1:
                break
            losses.append(self.model.train() and self.step(since))
            if (since + 1) % LOG:
                continue
            spent, clock = time.monotonic() - clock, time.monotonic()
            loss = float(torch.stack(losses).mean())  # waits for the device
            if not math.isfinite(loss):
                raise SystemExit(f"the loss is {loss} at step {self.state['step']}: lower step_size in the recipe")
            self.log(loss, len(losses) / max(spent, 1e-9), (since + 1) % VALIDATE == 0)
            losses = []
            if time.monotonic() - begun > self.args.minutes * 60:
                break
        self.state["seconds"] += time.monotonic() - begun
        self.log(float(torch.stack(losses).mean()) if losses else None, 0.0, True)
        self.save()

    def log(self, loss: float | None, rate: float, validate: bool) -> None:
        entry = {
            **self.state,
            "loss": loss,
            "bits_per_character": self.validate() if validate else None,
            "tokens_per_second": round(rate * self.recipe.rows * (len(self.stream.offsets) - 1)),
        }
        with (self.args.out / "log.jsonl").open("a") as file:
            file.write(json.dumps(entry) + "\n")
        print(" ".join(f"{key} {value:.4g}" for key, value in entry.items() if value), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partner", default="smollm2", help="whose vocabulary and table: a name, a folder, a hub id")
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="folders made by training.prepare")
    parser.add_argument("--out", type=Path, required=True, help="folder of this model; an unfinished one is continued")
    parser.add_argument("--direction", choices=list(network.READS), required=True)
    parser.add_argument("--minutes", type=float, default=9.0, help="end this leg after so long")
    parser.add_argument("--seconds", type=float, help="all of it in one leg: the step size has fallen to zero by then")
    parser.add_argument("--validate", type=Path, help="texts for bits per character, one a line, or .jsonl")
    parser.add_argument("--layers", type=int, help="another number than the recipe's")
    parser.add_argument("--table", type=Path, help="start with this table: the partner's unless given")
    parser.add_argument("--teach-table", action="store_true", help="train the table's frequent words too")
    parser.add_argument("--start", type=Path, help="folder of a trained model, to grow it to more --layers")
    parser.add_argument("--borrow", action="store_true", help="start from the partner's own layers (Llamas only)")
    parser.add_argument("--eager", action="store_true", help="do not compile")
    parser.add_argument("--recipe", type=Path)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    Leg(args, load(args.partner)).run()


if __name__ == "__main__":
    main()
