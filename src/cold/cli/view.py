"""What a person sees while a chain runs: step, energy, time left and the text so far, on stderr."""

from __future__ import annotations

import resource
import sys
import time
from types import TracebackType

import torch

from cold.lm.model import LanguageModel
from cold.recipes import Recipe
from cold.sampling.diagnostics import Info
from cold.sampling.langevin import State
from cold.text.problems import Problems

LONG_RUN = 60.0  # seconds from which on a run says first how long it will take


class View:
    """A live bar on a terminal, a line now and then elsewhere, nothing when quiet."""

    def __init__(self, recipe: Recipe, lm: LanguageModel, quiet: bool) -> None:
        self.recipe, self.lm, self.quiet = recipe, lm, quiet
        self.live = sys.stderr.isatty() and not quiet
        self.started = self.spoken = 0.0
        self.times: list[float] = []

    def __enter__(self) -> View:
        if self.live:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            self.progress = Progress(
                TextColumn("{task.completed}/{task.total}"),
                BarColumn(bar_width=20),
                TimeRemainingColumn(),
                TextColumn("energy {task.fields[energy]}  {task.fields[text]}", markup=False),
                console=Console(stderr=True),
                transient=True,
            )
            self.task = self.progress.add_task("", total=self.recipe.steps, energy="", text="")
            self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live:
            self.progress.stop()

    def say(self, line: str) -> None:
        if self.live:
            self.progress.console.print(line, markup=False, highlight=False)
        elif not self.quiet:
            print(line, file=sys.stderr, flush=True)

    def step(self, problems: Problems, state: State, info: Info) -> None:
        if self.quiet:
            return
        self.times.append(time.monotonic())
        if len(self.times) == 3:  # the first step also warms up
            self._estimate((self.times[2] - self.times[0]) / 2)
        now, pause = self.times[-1], 0.1 if self.live else 15.0
        if now - self.spoken <= pause and not (self.live and state.step == self.recipe.steps):
            return  # a look at the numbers waits for the device
        self.spoken = now
        energy = float(info.energy.min())
        text = " ".join(problems.walked.lm.decode(state.y[int(info.energy.argmin())].argmax(-1).tolist()).split())
        if self.live:
            self.progress.update(self.task, completed=state.step, energy=f"{energy:.2f}", text=text[:70])
        else:
            self.say(f"step {state.step}/{self.recipe.steps}  energy {energy:.2f}  {text}")

    def writing(self) -> None:
        if self.live:
            self.progress.update(self.task, text="discretizing, completing, selecting")

    def _estimate(self, seconds: float) -> None:
        whole = seconds * self.recipe.steps
        if whole < LONG_RUN:
            return
        shown = f"{whole / 60:.0f} minutes" if whole > 90 else f"{whole:.0f} seconds"
        gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
        where = "memory"
        if self.lm.device.type == "cuda":
            gib, where = torch.cuda.max_memory_allocated() / (1 << 30), "GPU memory"
        self.say(
            f"about {shown} for {self.recipe.steps} steps of {self.recipe.samples} samples ({seconds:.2f} s a step), "
            f"{gib:.1f} GiB of {where}; Ctrl-C shows the best so far"
        )
