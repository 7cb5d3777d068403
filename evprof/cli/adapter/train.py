"""`evprof adapter train`."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evprof.cli.adapter.collect import lasting
from evprof.cli.adapter.evaluate import Evaluated, evaluation, tell_figures
from evprof.cli.terminal.console import Console
from evprof.cli.terminal.progress import Progress
from evprof.core.errors import CANCELLED, USAGE, UserError
from evprof.core.records import DRAFT, TARGET
from evprof.core.units import count_text, percent_text


class TrainProgress(Progress):
    """Hears of a training's steps and judgements."""

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
    from evprof.session.facts import add_facts

    plan = _plan(options)
    if options.evaluate is not None and not Path(options.evaluate).exists():
        raise UserError(f"--evaluate: there is no {options.evaluate}; name a list of samples.")
    if options.session is not None:
        add_facts(options.session, {})  # refused before the training, where it cannot be written
    entry: dict[str, Any] = {}
    with TrainProgress(console) as progress, progress.until_stopped() as stop:
        end = _carry_out(plan, progress, stop, entry.update)
    if options.session is not None and entry:
        add_facts(options.session, {"training": [entry]})
    is_asked = options.evaluate is not None and end.adapter is not None and not end.is_stopped
    evaluated = _evaluated(options, console) if is_asked else None
    _tell(end, evaluated, options, console)
    return CANCELLED if end.is_stopped or (is_asked and evaluated is None) else 0


def _evaluated(options: argparse.Namespace, console: Console) -> Evaluated | None:
    of_a_list: dict[str, Any] = dict.fromkeys(("root", "questions", "limit", "max_new_tokens"))
    asked = {"adapter": str(options.output), "samples": options.evaluate, "no_write": False, **of_a_list}
    return evaluation(argparse.Namespace(**{**vars(options), **asked}), console)


def _carry_out(
    plan: Any, progress: TrainProgress, stop: threading.Event, keep: Callable[[dict[str, Any]], None]
) -> Any:
    from engines.training.making import train_adapter

    return train_adapter(plan, progress, stop, keep=keep)


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
        raise UserError(
            f"--size must be a name and a whole number such as rank=32, not '{text}'.", exit_code=USAGE
        ) from None


def _tell(end: Any, evaluated: Evaluated | None, options: argparse.Namespace, console: Console) -> None:
    curves = end.curves
    if end.adapter is None:
        console.warn("stopped before anything was learned; no adapter was written")
    elif not console.is_json:
        best = curves.validation_steps.index(curves.best_step)
        early = ", stopped early" if curves.stopped_early else ""
        console.print(
            f"{options.kind} adapter: {percent_text(curves.validation_match[best], 1)} of held-back tokens right at "
            f"step {curves.best_step:,}{early}: {end.adapter.folder}"
        )
        if evaluated is not None:
            tell_figures(evaluated, console)
    if end.is_stopped:
        console.warn("stopped; the best state so far was kept" if end.adapter is not None else "stopped")
    if options.session is not None:
        console.note(f"saved: {options.session}")
    if console.is_json:
        console.document(
            {
                "schema_version": 1,
                "adapter": None if end.adapter is None else str(end.adapter.folder),
                "kind": options.kind,
                "name": options.name or options.output.name,
                "training": curves.to_json(),
                "evaluation": None if evaluated is None else evaluated.figures,
                "session": None if options.session is None else str(options.session),
                "is_complete": not end.is_stopped,
            }
        )
