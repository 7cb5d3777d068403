"""`evprof adapter train`."""

from __future__ import annotations

import argparse
from typing import Any

from evprof.cli.adapter.collect import lasting
from evprof.cli.terminal.console import Console
from evprof.cli.terminal.progress import Progress
from evprof.core.errors import CANCELLED, UsageError
from evprof.core.records import DRAFT, TARGET
from evprof.core.units import count_text, percent_text


class TrainProgress(Progress):
    def __init__(self, console: Console) -> None:
        super().__init__(console, "training", "steps")

    def begin(self, kind: str, curves: Any, parameters: int) -> None:
        sizes = f"{parameters:,} parameters" if parameters else "counted, nothing to train"
        examples = f"{count_text(curves.examples, 'example')}, {curves.validation_examples:,} held back"
        self.say(f"training {kind}: {examples}, {sizes}")
        self.start(0)

    def step(self, step: int, steps: int, loss: float) -> None:
        self._total = steps
        self.reach(step, f"loss {loss:.3f}")

    def judged(self, curves: Any, *, is_best: bool) -> None:
        match, loss = curves.validation_match[-1], curves.validation_loss[-1]
        best = ", the best so far" if is_best and len(curves.validation_steps) > 1 else ""
        self.say(
            f"step {curves.validation_steps[-1]:,}: held back: {percent_text(match, 1)} of tokens right, loss "
            f"{loss:.3f}{best}"
        )


def train(options: argparse.Namespace, console: Console) -> int:
    """Trains and writes the adapter; 130 when stopped, with the best state so far kept where there is one."""
    from engines.training.making import train_adapter

    plan = _plan(options)
    with TrainProgress(console) as progress, progress.until_stopped() as stop:
        end = train_adapter(plan, progress, stop)
    curves = end.curves
    if end.adapter is None:
        console.warn("stopped before anything was learned; no adapter was written")
    elif end.is_stopped:
        console.warn("stopped; the best state so far was kept")
    if console.is_json:
        console.document(
            {
                "schema_version": 1,
                "adapter": None if end.adapter is None else str(end.adapter.folder),
                "kind": options.kind,
                "name": options.name or options.output.name,
                "training": curves.to_json(),
                "is_complete": not end.is_stopped,
            }
        )
    elif end.adapter is not None:
        match = curves.validation_match[curves.validation_steps.index(curves.best_step)]
        early = ", stopped early" if curves.stopped_early else ""
        console.print(
            f"{options.kind} adapter: {percent_text(match, 1)} of held-back tokens right at step "
            f"{curves.best_step:,}{early}: {end.adapter.folder}"
        )
    return CANCELLED if end.is_stopped else 0


def _plan(options: argparse.Namespace) -> Any:
    from engines.training.loop import TrainingOptions
    from engines.training.making import TrainPlan

    chosen = TrainingOptions(
        steps=options.steps,
        batch=options.batch,
        learning_rate=options.learning_rate,
        validation=options.validation,
        patience=options.patience,
        every=options.validate_every,
        seed=options.seed,
    )
    chosen.validate()
    models = {role: lasting(name) for role in (DRAFT, TARGET) if (name := getattr(options, role)) is not None}
    return TrainPlan(
        options.data,
        options.kind,
        options.output,
        chosen,
        dict(_size(text) for text in options.size),
        options.name or "",
        models,
        options.device,
        options.dtype,
        options.overwrite,
    )


def _size(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    try:
        return name.strip(), int(value)
    except ValueError:
        raise UsageError(f"--size must be a name and a whole number such as rank=32, not '{text}'.") from None
