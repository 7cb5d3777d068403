"""The benchmarks: how each is measured, and what it tells people. What they need is imported when one is asked for."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from evprof.cli.bench.gpu_report import gpu_blocks
from evprof.cli.bench.model_reports import engine_blocks, repeatability_blocks, speculation_blocks
from evprof.cli.bench.reader_reports import coverage_blocks, events_blocks, parts_blocks, video_blocks
from evprof.cli.bench.switch_report import switch_blocks, switch_markdown_blocks
from evprof.cli.terminal.blocks import Block, Row
from evprof.cli.terminal.console import Console

_SHAPE = "dispatch-32"

Tell = Callable[[Row], Iterator[Block]]


@dataclass(frozen=True)
class Benchmark:
    """`measure` gives environment, rows and summary; `tell` says them to people (None: the facts as they are)."""

    measure: Callable[[argparse.Namespace, Console], dict[str, Any]]
    tell: Tell | None = None
    tell_markdown: Tell | None = None


def _rounds(options: argparse.Namespace, usual: int) -> int:
    return usual if options.repeat is None else int(options.repeat)


def _engine(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    from engines.bench.contenders import choose_contenders
    from engines.bench.engine import EngineBench, measure_engine

    bench = EngineBench(
        shape=options.shape or _SHAPE,
        context=options.context,
        tokens=options.tokens,
        repeats=_rounds(options, 15),
        device=options.device,
        dtype=options.dtype,
        limit_s=options.limit,
        contenders=choose_contenders(options.contenders) if options.contenders is not None else None,
    )
    return measure_engine(bench, console.note)


def _switches(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Ctrl-C stops it and keeps the rows so far."""
    from engines.start import make_batch_engine
    from evprof.cli.run.recorded_session import make_engine
    from evprof.core.vocabulary.generation import ModelChoice
    from evprof.loaders.bundled import bundled_sample
    from evprof.run.processes.interrupts import stop_flag
    from evprof.run.switches.bench import SwitchPlan, measure_switches

    plan = SwitchPlan(
        bundled_sample(),
        ModelChoice(options.draft, options.device, options.dtype),
        ModelChoice(options.target, options.device, options.dtype),
        repeat=_rounds(options, 15),
        max_new_tokens=options.max_new_tokens,
        only=tuple(options.only),
    )
    plan.variants()  # before anything is imported
    with stop_flag() as stop:
        return measure_switches(make_engine(), plan, stop, console.note, batches=make_batch_engine())


def _speculation(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    from evprof.cli.bench.speculation import measure_drafters

    return measure_drafters(options, console)


def _overhead(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    from engines.bench.overhead import measure_overhead

    # Where the device is not named, the CPU: what is measured is dispatch, and that comparably everywhere.
    device = "cpu" if options.device == "auto" else options.device
    return measure_overhead(options.shape or _SHAPE, options.pairs, console.note, device=device)


def _ui(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Without a display the window is drawn offscreen, and that is said."""
    from evprof.cli.terminal.display import missing_display
    from evprof.cli.terminal.program import engine_argv, program_argv
    from ui.bench.window import measure_window

    if (reason := missing_display()) and "QT_QPA_PLATFORM" not in os.environ:
        console.note(f"Drawing offscreen: {reason}")
        os.environ["QT_QPA_PLATFORM"] = "offscreen"
    return measure_window(engine_argv(), program_argv("_paint"), options.trials, options.seconds, console.note)


def _events(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    from evprof.cli.terminal.program import program_argv
    from evprof.run.benches.events import EventsPlan, measure_events

    reader = tuple(program_argv("_read-events"))
    only = tuple(options.only)
    return measure_events(
        EventsPlan(reader, options.events, _rounds(options, 5), large=options.large, only=only), console.note
    )


def _video(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    from evprof.run.benches.video import measure_video

    return measure_video(_rounds(options, 7), console.note, only=options.only)


def _parts(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    from evprof.run.benches.parts import measure_parts

    return measure_parts(_rounds(options, 7), console.note, only=options.only)


def _repeatability(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    from evprof.cli.bench.repeatability import measure

    return measure(options, console)


def _coverage(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Ctrl-C stops it and keeps the rows so far."""
    from evprof.run.benches.coverage import QUICK_SIMULATIONS, SIMULATIONS, measure_coverage
    from evprof.run.processes.interrupts import stop_flag

    with stop_flag() as stop:
        return measure_coverage(QUICK_SIMULATIONS if options.quick else SIMULATIONS, console.note, stop)


def _gpu(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    from evprof.cli.bench.gpu import measure

    return measure(options, console)


def _engine_process(_: argparse.Namespace, __: Console) -> dict[str, Any]:
    from evprof.cli.bench.engine_process import measure_engine_process

    return measure_engine_process()


BENCHMARKS = {
    "gpu": Benchmark(_gpu, gpu_blocks),
    "engine": Benchmark(_engine, engine_blocks),
    "switches": Benchmark(_switches, switch_blocks, switch_markdown_blocks),
    "speculation": Benchmark(_speculation, speculation_blocks),
    "overhead": Benchmark(_overhead),
    "ui": Benchmark(_ui),
    "events": Benchmark(_events, events_blocks),
    "video": Benchmark(_video, video_blocks),
    "parts": Benchmark(_parts, parts_blocks),
    "coverage": Benchmark(_coverage, coverage_blocks),
    "engine-process": Benchmark(_engine_process),
    "repeatability": Benchmark(_repeatability, repeatability_blocks),
}
"""By name, in the order of the help."""
