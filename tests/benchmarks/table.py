"""The benchmarks: how each is measured, and what it tells people. What they need is imported when one is asked for."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path
from typing import Any

from benchmarks import options as own
from benchmarks.processes import run_argv
from evprof.cli.bench import benchmarks as takes
from evprof.cli.bench.benchmarks import BENCH_SHAPE, Benchmark
from evprof.cli.bench.command import BenchCommand
from evprof.cli.command import CommandExample, CommandHelp, CommandParser
from evprof.cli.terminal.console import Console


def _engine(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    from benchmarks.engine import EngineBench, choose_contenders, measure_engine

    bench = EngineBench(
        shape=options.shape or BENCH_SHAPE,
        context=options.context,
        tokens=options.tokens,
        repeats=options.repeat,
        device=options.device,
        dtype=options.dtype,
        limit_s=options.limit,
        contenders=choose_contenders(options.contenders) if options.contenders is not None else None,
    )
    return measure_engine(bench, console.note)


def _ui(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Without a display the window is drawn offscreen, and that is said."""
    from benchmarks.window import SIZES, measure_window
    from evprof.cli.terminal.program import missing_display

    if (reason := missing_display()) and "QT_QPA_PLATFORM" not in os.environ:
        console.note(f"Drawing offscreen: {reason}")
        os.environ["QT_QPA_PLATFORM"] = "offscreen"
    sizes = SIZES.tenth() if options.quick else SIZES
    return measure_window(run_argv("_paint"), options.trials, options.seconds, console.note, sizes=sizes)


def _events(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    from benchmarks.events import EventsPlan, measure_events

    reader = tuple(run_argv("_read-events"))
    only = tuple(options.only)
    return measure_events(
        EventsPlan(reader, options.events, options.repeat, large=options.large, only=only), console.note
    )


def _video(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    from benchmarks.video import measure_video

    return measure_video(options.repeat, console.note, only=options.only)


def _parts(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    from benchmarks.parts import measure_parts

    return measure_parts(options.repeat, console.note, only=options.only)


def _sessions(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    from benchmarks.sessions import measure_sessions
    from evprof.cli.terminal.program import program_argv

    session = None if options.session is None else Path(options.session)
    return measure_sessions(program_argv, options.runs, console.note, options.only, session)


def _coverage(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    from benchmarks.coverage import QUICK_SIMULATIONS, SIMULATIONS, measure_coverage
    from evprof.run.processes.interrupts import stop_flag

    with stop_flag() as stop:
        return measure_coverage(QUICK_SIMULATIONS if options.quick else SIMULATIONS, console.note, stop)


def _same(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    from benchmarks.same_twice import measure_same_twice
    from evprof.run.processes.interrupts import stop_flag

    with stop_flag() as stop:
        return measure_same_twice(options.comparisons, console.note, stop)


def _engine_process(_: argparse.Namespace, __: Console) -> dict[str, Any]:
    from benchmarks.engine_process import measure_engine_process

    return measure_engine_process()


BENCHMARKS = {
    "same": Benchmark(
        """Measure how often a difference is called between two sides that are the same.

        The bundled pair runs against itself in 5 to 10 turns.
        """,
        (CommandExample("run.py same --comparisons 10", "measure ten comparisons"),),
        (takes.option("--comparisons", type=int, metavar="N", default=50, help="how many (default: %(default)s)"),),
        _same,
        {"rows": ("mode", "turns", "ratio", "low", "high", "called")},
    ),
    "engine": Benchmark(
        """Measure how fast models with random weights decode, beside transformers' generate.

        All take turns. How near they come to this machine's own ceilings is told as well; these are measured first.
        """,
        (
            CommandExample(
                "run.py engine --shape 160m --tokens 32 --repeat 7", "measure a shape of 160 million weights"
            ),
            CommandExample("run.py engine --contenders ours,hf_eager --markdown", "measure two, as a Markdown table"),
        ),
        (*(takes.SHAPE, own.engine, takes.repeat(15), *takes.MACHINE, takes.MARKDOWN),),
        _engine,
        {
            "rows": (
                "contender",
                "phase",
                "ms",
                "ms_low",
                "ms_high",
                "tok_s",
                "vs_hf_eager",
                "agreement",
                "mbu",
                "mfu",
                "turns",
            )
        },
    ),
    "ui": Benchmark(
        """Measure how soon the window is visible and how smoothly it draws.

        How long its thread is ever busy while 20,000 records a second arrive from another process; how fast it zooms
        and pans over a million spans; how soon a session of a million records is seen;
        and what an open window does to the engine's token times.
        """,
        (CommandExample("run.py ui --trials 5 --seconds 30", "watch the window five times"),),
        (own.trials, own.quick("sessions and timelines of a tenth of the size")),
        _ui,
    ),
    "events": Benchmark(
        """Measure how fast event recordings of every format open and read.

        Beside the library people know, on the same files and in turns, with the memory that takes and whether the
        events are right.
        """,
        (
            CommandExample("run.py events --events 1000000", "measure every format"),
            CommandExample("run.py events --only evt3 dat --repeat 15", "measure two formats more often"),
        ),
        (own.events, takes.only("words of formats"), takes.repeat(5), takes.MARKDOWN),
        _events,
        {
            "rows": (
                "format",
                "file_bytes",
                "ours_mev_s",
                "library",
                "library_mev_s",
                "ratio",
                "cpu_ratio",
                "ours_equal",
                "reason",
            )
        },
    ),
    "video": Benchmark(
        """Measure how long 8 frames of a clip take.

        Beside decoding it all, seeking for each frame and the libraries that are installed, with every frame recognised
        by the number painted into it.
        """,
        (CommandExample('run.py video --only "gop 12" vfr', "measure some clips"),),
        (takes.only("words of clips"), takes.repeat(7), takes.MARKDOWN),
        _video,
        {"rows": ("clip", "reader", "median_ms", "best_ms", "ours_vs_this", "exact", "reason")},
    ),
    "parts": Benchmark(
        """Measure how long evprof's own work takes, without a model.

        Drawing and simulating events, reading manifests and sessions, importing, comparing, texts.
        """,
        (CommandExample("run.py parts --only interval --repeat 3", "measure the intervals"),),
        (takes.only("words of parts"), takes.repeat(7), takes.MARKDOWN),
        _parts,
        {"rows": ("part", "amount", "unit", "ms", "best_ms", "worst_ms", "per_s")},
    ),
    "sessions": Benchmark(
        """Measure what sessions of very many runs take: to open, list, filter, compare, report and rewrite.

        Seconds and memory, each step in a process of its own, on a session of 50 configurations that is made for it.
        """,
        (
            CommandExample("run.py sessions --runs 10000", "measure a session of 10,000 runs"),
            CommandExample("run.py sessions --only list compare", "measure opening, listing and comparing"),
        ),
        (own.runs, takes.only("list, window, show, inspect, compare, report, export, merge"), takes.MARKDOWN),
        _sessions,
        {"rows": ("step", "does", "seconds", "cpu_s", "peak_mb")},
    ),
    "coverage": Benchmark(
        """Measure how often our 95 % intervals hold the truth, over simulated runs.

        Blocks, turns, drift, neighbours that are alike, processes and scenes that differ.
        """,
        (CommandExample("run.py coverage --quick", "simulate less"),),
        (own.quick("300 simulations a row, not 2000"), takes.MARKDOWN),
        _coverage,
        {"rows": ("order", "scenario", "estimator", "n", "coverage", "called", "width")},
    ),
    "engine-process": Benchmark(
        """Measure how soon the window's engine process answers, and how soon a record of it has arrived.""",
        (CommandExample("run.py engine-process", "start one and measure it"),),
        (),
        _engine_process,
    ),
}
"""By name, in the order of the help."""


class OwnBenchmarks(BenchCommand):
    """Measure evprof itself: its readers, its window, its sessions and its statistics."""

    benchmarks = BENCHMARKS
    examples = ()


def measure(words: list[str]) -> int:
    """Runs a benchmark and returns its exit code."""
    parser = CommandParser(
        prog="tests/benchmarks/run.py",
        description=OwnBenchmarks.description(),
        formatter_class=CommandHelp,
        allow_abbrev=False,
    )
    parser.set_defaults(quiet=False)
    command = OwnBenchmarks()
    command.add_options(parser)
    options = parser.parse_args(words)
    console = Console(is_json=options.json, is_quiet=options.quiet)
    with contextlib.redirect_stdout(sys.stderr) if options.json else contextlib.nullcontext():
        return command.run(options, console)
