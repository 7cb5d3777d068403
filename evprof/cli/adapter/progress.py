"""What a person sees while examples are collected or an adapter is trained."""

from __future__ import annotations

from typing import Any

from evprof.cli.terminal.console import Console
from evprof.cli.terminal.progress import Progress
from evprof.core.units import count_text, percent_text


class CollectProgress(Progress):
    """Hears of collected examples."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, "collecting", "examples")

    def begin(self, total: int, done_before: int) -> None:
        """So many are to be made, of which some are there."""
        there = f"; goes on, {done_before:,} there before" if done_before else ""
        self.say(f"collecting: {count_text(total, 'example')}{there}")
        self.start(total, done_before)

    def end(self, name: str, error: str | None = None) -> None:
        """One was made, or could not be."""
        if error is not None:
            self.say(f"failed: {name}: {error}", is_warning=True)
        self.advance()


class TrainProgress(Progress):
    """Hears of a training's steps and judgements."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, "training", "steps")

    def begin(self, kind: str, curves: Any, parameters: int) -> None:
        """Training begins."""
        sizes = f"{parameters:,} parameters" if parameters else "counted, nothing to train"
        examples = f"{count_text(curves.examples, 'example')}, {curves.validation_examples:,} held back"
        self.say(f"training {kind}: {examples}, {sizes}")
        self.start(0)

    def step(self, step: int, steps: int, loss: float) -> None:
        """Some steps are done."""
        self._total = steps
        self.reach(step, f"loss {loss:.3f}")

    def judged(self, curves: Any, *, is_best: bool) -> None:
        """The held-back examples were looked at."""
        match, loss = curves.validation_match[-1], curves.validation_loss[-1]
        best = ", the best so far" if is_best and len(curves.validation_steps) > 1 else ""
        self.say(
            f"step {curves.validation_steps[-1]:,}: held back: {percent_text(match, 1)} of tokens right, loss "
            f"{loss:.3f}{best}"
        )
