"""What `evprof bench speculation` measures on: held-out scenes written for the occasion, and every drafter there is."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from evprof.cli.terminal.console import Console
from evprof.core.errors import USAGE, UserError
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import ModelChoice
from evprof.run.benches.drafting import Contender, contenders

QUESTION = "What are the key elements in this scene?"
SEED = 7


def measure_drafters(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Environment, rows, sweep and summary. Ctrl-C stops it and keeps the rows so far."""
    from evprof.cli.run.recorded_session import make_engine
    from evprof.run.benches.speculation import SpeculationPlan, measure_speculation
    from evprof.run.processes.interrupts import first_interrupt

    chosen = _chosen(options)
    target = ModelChoice(options.target, options.device, options.dtype)
    from engines.speculation.differing_answers import FlipJudge

    stop = threading.Event()
    with _samples(options.scenes, console) as samples, first_interrupt(stop.set):
        plan = SpeculationPlan(
            samples,
            chosen,
            ModelChoice(options.draft, options.device, options.dtype),
            target,
            repeat=3 if options.repeat is None else options.repeat,
            max_new_tokens=options.max_new_tokens,
            judge=FlipJudge(target),
        )
        return measure_speculation(make_engine(), plan, stop, console.note)


def _chosen(options: argparse.Namespace) -> list[Contender]:
    from evprof.loaders.adapters import bundled_adapters, read_adapter

    adapters = [adapter for adapter in bundled_adapters() if _fits(adapter.target, options.target)]
    adapters += [read_adapter(path) for path in options.adapter or ()]
    known = contenders(adapters)
    if not options.only:
        return known
    found = [one for one in known if any(word in (one.key, one.speculation.drafter) for word in options.only)]
    if not found:
        names = ", ".join(dict.fromkeys(one.key for one in known))
        raise UserError(
            f"--only: there is no drafter {' or '.join(options.only)}; choose among {names}.", exit_code=USAGE
        )
    return found


def _fits(trained_for: str, target: str) -> bool:
    return Path(trained_for).name == Path(target).name


@contextmanager
def _samples(count: int, console: Console) -> Iterator[Sequence[Sample]]:
    """Held-out scenes as files, gone afterwards; the bundled samples where `count` is 0."""
    from evprof.loaders.bundled import bundled_samples

    if count == 0:
        yield bundled_samples()
        return
    from engines.tiny.dataset import held_out_scenes
    from engines.tiny.held_out import write_scenes

    with TemporaryDirectory(prefix="evprof-bench-") as folder:
        console.note(f"writing {count} held-out scenes")
        written = write_scenes(Path(folder), held_out_scenes(count, SEED), workers=1)
        yield [replace(sample, prompt=QUESTION, name=f"scene {number}") for number, sample in enumerate(written, 1)]
