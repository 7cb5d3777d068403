"""The benchmarks: how each is measured, and what it tells people. What they need is imported when one is asked for."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from evprof.cli.bench import options as takes
from evprof.cli.bench.gpu_report import gpu_blocks
from evprof.cli.bench.model_reports import engine_blocks, repeatability_blocks, speculation_blocks
from evprof.cli.bench.reader_reports import coverage_blocks, events_blocks, parts_blocks, sessions_blocks, video_blocks
from evprof.cli.bench.switch_report import switch_blocks, switch_markdown_blocks
from evprof.cli.parser import CommandExample
from evprof.cli.terminal.blocks import Block, Row
from evprof.cli.terminal.console import Console

_SHAPE = "dispatch-32"

AddOptions = Callable[[argparse.ArgumentParser], object]
Tell = Callable[[Row], Iterator[Block]]


@dataclass(frozen=True)
class Benchmark:
    """`text` is its help, its first line in the list of benchmarks; `options` add what it takes.

    `measure` gives environment, rows and summary; `tell` says them to people (None: the facts as they are).
    """

    text: str
    examples: tuple[CommandExample, ...]
    options: tuple[AddOptions, ...]
    measure: Callable[[argparse.Namespace, Console], dict[str, Any]]
    tell: Tell | None = None
    tell_markdown: Tell | None = None


def _engine(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    from engines.bench.contenders import choose_contenders
    from engines.bench.engine import EngineBench, measure_engine

    bench = EngineBench(
        shape=options.shape or _SHAPE,
        context=options.context,
        tokens=options.tokens,
        repeats=options.repeat,
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
        repeat=options.repeat,
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
    from evprof.run.kept_overhead import keep_overhead

    # Where the device is not named, the CPU: what is measured is dispatch, and that comparably everywhere.
    device = "cpu" if options.device == "auto" else options.device
    document = measure_overhead(options.shape or _SHAPE, options.pairs, console.note, device=device)
    document["summary"] |= _window_effect(min(options.pairs, _MOST_TURNS), console)
    try:
        if (path := keep_overhead(document, f"{date.today():%Y-%m-%d}")) is not None:
            console.note(f"kept for the window: {path}")
    except OSError as error:
        console.warn(f"It could not be kept for the window: {error.strerror or error}.")
    return document


def _ui(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Without a display the window is drawn offscreen, and that is said."""
    from evprof.cli.terminal.display import missing_display
    from evprof.cli.terminal.program import engine_argv, leave_to_window_program, program_argv

    leave_to_window_program()
    from ui.bench.window import SIZES, measure_window

    if (reason := missing_display()) and "QT_QPA_PLATFORM" not in os.environ:
        console.note(f"Drawing offscreen: {reason}")
        os.environ["QT_QPA_PLATFORM"] = "offscreen"
    sizes = SIZES.tenth() if options.quick else SIZES
    argv = engine_argv(), program_argv("_paint")
    return measure_window(*argv, options.trials, options.seconds, console.note, sizes=sizes)


_MOST_TURNS = 20
"""Of a window that works, and of one that sleeps; each lasts as long as the window leaves between two looks."""

_EFFECT = ("windowed_vs_headless", "windowed_vs_headless_ci95_low", "windowed_vs_headless_ci95_high")


def _window_effect(turns: int, console: Console) -> dict[str, Any]:
    """What an open window adds, measured in a process of its own: torch and Qt do not share one. None without Qt."""
    import json
    import subprocess

    from evprof.cli.terminal.program import program_argv

    environment = {"QT_QPA_PLATFORM": "offscreen", **os.environ}
    done = subprocess.run(
        program_argv("_window-effect", str(turns)), capture_output=True, text=True, env=environment, check=False
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it gave no reason"])[-1]
        console.note(f"the window's effect on the engine was not measured: {last}")
        return dict.fromkeys(_EFFECT)
    found = json.loads(done.stdout)
    console.note(f"time per token with a window by that without: {found[_EFFECT[0]] or float('nan'):.4f}")
    return {name: found[name] for name in _EFFECT}


def _events(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    from evprof.cli.terminal.program import program_argv
    from evprof.run.benches.events import EventsPlan, measure_events

    reader = tuple(program_argv("_read-events"))
    only = tuple(options.only)
    return measure_events(
        EventsPlan(reader, options.events, options.repeat, large=options.large, only=only), console.note
    )


def _video(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    from evprof.run.benches.video import measure_video

    return measure_video(options.repeat, console.note, only=options.only)


def _parts(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    from evprof.run.benches.parts import measure_parts

    return measure_parts(options.repeat, console.note, only=options.only)


def _sessions(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    from evprof.cli.terminal.program import program_argv
    from evprof.run.benches.sessions import measure_sessions

    session = None if options.session is None else Path(options.session)
    return measure_sessions(program_argv, options.runs, console.note, options.only, session)


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
    "gpu": Benchmark(
        """Measure every check and figure that needs a GPU, in one go of at most nine minutes.

        Ceilings, tests, each way of decoding 7B shapes, instrumentation, switches, parallel prefill, drafts, memory, a
        trace. On a CPU it does the same at tiny shapes. It needs neither a network nor a display, and writes gpu.json
        and gpu.md.
        """,
        (
            CommandExample("evprof bench gpu --out found", "measure everything"),
            CommandExample("evprof bench gpu --plan", "print the sections and how long each may take"),
            CommandExample("evprof bench gpu --out found --only steps trace", "measure some sections"),
        ),
        (takes.gpu, takes.gpu_shape, takes.device, takes.dtype, takes.only("names of sections")),
        _gpu,
        gpu_blocks,
    ),
    "engine": Benchmark(
        """Measure how fast models with random weights decode, beside transformers' generate.

        All take turns. How near they come to this machine's own ceilings is told as well; these are measured first.
        """,
        (
            CommandExample(
                "evprof bench engine --shape 160m --tokens 32 --repeat 7", "measure a shape of 160 million weights"
            ),
            CommandExample(
                "evprof bench engine --contenders ours,hf_eager --markdown", "measure two, as a Markdown table"
            ),
        ),
        (
            *(takes.bench_shape, takes.engine, takes.repeat(15), takes.device, takes.dtype),
            *(takes.sessions, takes.markdown),
        ),
        _engine,
        engine_blocks,
    ),
    "switches": Benchmark(
        """Measure every optimization on against off, in turns in one process.

        Speed, memory, and whether the answer stays the same, beside what was expected of it. The sample is the bundled
        one.
        """,
        (
            CommandExample("evprof bench switches --repeat 15", "measure all of them"),
            CommandExample(
                'evprof bench switches --only vision-cache "cache fp8" --markdown', "measure some, as Markdown"
            ),
        ),
        (
            *(takes.pair, takes.only("such as cache or 'cache fp8'"), takes.max_new_tokens, takes.repeat(15)),
            *(takes.device, takes.dtype, takes.sessions, takes.markdown),
        ),
        _switches,
        switch_blocks,
        switch_markdown_blocks,
    ),
    "speculation": Benchmark(
        """Measure every drafter against plain decoding of the same held-out scenes, in turns.

        Acceptance, costs, speed as predicted and as measured, and whether the answers stay the same.
        """,
        (
            CommandExample("evprof bench speculation", "measure all drafters"),
            CommandExample(
                "evprof bench speculation --only model eagle --data mine.csv", "measure two on your own samples"
            ),
        ),
        (
            *(takes.pair, takes.only("names of drafters"), takes.scenes, takes.max_new_tokens),
            *(takes.repeat(3), takes.device, takes.dtype, takes.step, takes.sessions, takes.markdown),
        ),
        _speculation,
        speculation_blocks,
    ),
    "overhead": Benchmark(
        """Measure what the instrumentation costs per token.

        In interleaved pairs against the same loop with a null recorder, with the A/A ratio of the same run beside it;
        on a GPU where --device names one.
        """,
        (CommandExample("evprof bench overhead --pairs 300", "measure it on this machine's processor"),),
        (takes.bench_shape, takes.pairs, takes.device, takes.sessions),
        _overhead,
    ),
    "ui": Benchmark(
        """Measure how soon the window is visible and how smoothly it draws.

        How long its thread is ever busy while 20,000 records a second arrive from another process; how fast it zooms
        and pans over a million spans, beside pyqtgraph's own items; how soon a session of a million records is seen;
        and what an open window does to the engine's token times.
        """,
        (CommandExample("evprof bench ui --trials 5 --seconds 30", "watch the window five times"),),
        (takes.trials, takes.quick("sessions and timelines of a tenth of the size")),
        _ui,
    ),
    "events": Benchmark(
        """Measure how fast event recordings of every format open and read.

        Beside the library people know, on the same files and in turns, with the memory that takes and whether the
        events are right.
        """,
        (
            CommandExample("evprof bench events --events 1000000", "measure every format"),
            CommandExample("evprof bench events --only evt3 dat --repeat 15", "measure two formats more often"),
        ),
        (takes.events, takes.only("words of formats"), takes.repeat(5), takes.markdown),
        _events,
        events_blocks,
    ),
    "video": Benchmark(
        """Measure how long 8 frames of a clip take.

        Beside decoding it all, seeking for each frame and the libraries that are installed, with every frame recognised
        by the number painted into it.
        """,
        (CommandExample('evprof bench video --only "gop 12" vfr', "measure some clips"),),
        (takes.only("words of clips"), takes.repeat(7), takes.markdown),
        _video,
        video_blocks,
    ),
    "parts": Benchmark(
        """Measure how long evprof's own work takes, without a model.

        Drawing and simulating events, reading manifests and sessions, importing, comparing, intervals, texts.
        """,
        (CommandExample("evprof bench parts --only interval --repeat 3", "measure the intervals"),),
        (takes.only("words of parts"), takes.repeat(7), takes.markdown),
        _parts,
        parts_blocks,
    ),
    "sessions": Benchmark(
        """Measure what sessions of very many runs take: to open, list, filter, compare, report and rewrite.

        Seconds and memory, each step in a process of its own, on a session of 50 configurations that is made for it.
        """,
        (
            CommandExample("evprof bench sessions --runs 10000", "measure a session of 10,000 runs"),
            CommandExample("evprof bench sessions --only list compare", "measure opening, listing and comparing"),
        ),
        (takes.runs, takes.only("list, window, show, inspect, compare, report, export, merge"), takes.markdown),
        _sessions,
        sessions_blocks,
    ),
    "coverage": Benchmark(
        """Measure how often our 95 % intervals hold the truth, over simulated runs.

        Blocks, turns, drift, neighbours that are alike, processes and scenes that differ.
        """,
        (CommandExample("evprof bench coverage --quick", "simulate less"),),
        (takes.quick("300 simulations a row, not 2000"), takes.markdown),
        _coverage,
        coverage_blocks,
    ),
    "engine-process": Benchmark(
        """Measure how soon the window's engine process answers, and how soon a record of it has arrived.""",
        (CommandExample("evprof bench engine-process", "start one and measure it"),),
        (),
        _engine_process,
    ),
    "repeatability": Benchmark(
        """Measure how much fresh engine processes differ on this machine.

        And the runs of one process. It is kept, so that comparisons of single processes can say what is usual here.
        """,
        (CommandExample("evprof bench repeatability --sessions 8", "measure eight processes"),),
        (
            *(takes.target, takes.max_new_tokens, takes.repeat(5), takes.many_sessions),
            *(takes.device, takes.dtype),
        ),
        _repeatability,
        repeatability_blocks,
    ),
}
"""By name, in the order of the help."""
