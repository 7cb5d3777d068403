"""The benchmarks: how each is measured, and what it tells people. What they need is imported when one is asked for."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

from evprof.cli.bench import options as takes
from evprof.cli.bench.gpu_report import gpu_blocks
from evprof.cli.bench.model_reports import repeatability_blocks, speculation_blocks
from evprof.cli.bench.switch_report import switch_blocks, switch_markdown_blocks
from evprof.cli.parser import CommandExample
from evprof.cli.terminal.blocks import Block, Row
from evprof.cli.terminal.console import Console

BENCH_SHAPE = "dispatch-32"
"""The shape that is measured where none is named."""

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
    document = measure_overhead(options.shape or BENCH_SHAPE, options.pairs, console.note, device=device)
    try:
        if (path := keep_overhead(document, f"{date.today():%Y-%m-%d}")) is not None:
            console.note(f"kept for the window: {path}")
    except OSError as error:
        console.warn(f"It could not be kept for the window: {error.strerror or error}.")
    return document


def _repeatability(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    from evprof.cli.bench.repeatability import measure

    return measure(options, console)


def _gpu(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    from evprof.cli.bench.gpu import measure

    return measure(options, console)


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
    "repeatability": Benchmark(
        """Measure how much fresh engine processes differ on this machine.

        And the runs of one process.
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
