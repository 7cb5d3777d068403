"""`evprof bench gpu`: every GPU check and figure in one go, or the plan of it."""

from __future__ import annotations

import argparse
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evprof.cli.bench.gpu_report import gpu_blocks
from evprof.cli.terminal import program
from evprof.cli.terminal.blocks import print_blocks
from evprof.cli.terminal.console import Console
from evprof.core.errors import USAGE, UserError
from evprof.run.gpu_bench.driving import GpuBench, has_gpu, measure_gpu
from evprof.run.gpu_bench.plan import (
    MEASURED_ON,
    MOST_S,
    SIZES,
    SLOWEST_START_S,
    START_S,
    GpuSection,
    by_process,
    chosen_sections,
)
from evprof.run.processes.interrupts import stop_flag

_CPU_PATIENCE = 10
"""Times as long as on a GPU: the plan's seconds are a GPU machine's."""


def measure(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """The document, which also lies in `--out`. Ctrl-C ends the section at work and keeps what was measured.

    Raises UserError (exit code 2) without a folder and for words that mean nothing.
    """
    if options.out is None:
        raise UserError("bench gpu needs a folder for what it measures; name it with --out.", exit_code=USAGE)
    if options.shape not in (None, *SIZES):
        raise UserError(f"--shape of bench gpu is {' or '.join(SIZES)}, not {options.shape}.", exit_code=USAGE)
    is_on_cpu = options.device.startswith("cpu") or not has_gpu()
    patience = _CPU_PATIENCE if is_on_cpu else 1
    sections = [replace(section, limit_s=patience * section.limit_s) for section in chosen_sections(options.only)]

    def argv(together: Sequence[GpuSection]) -> list[str]:
        size = [] if options.shape is None else ["--shape", options.shape]
        where = ["--device", options.device, "--dtype", options.dtype, *size]
        return program.program_argv(
            "_gpu-section", *(f"{section.name}:{section.limit_s}" for section in together), *where
        )

    bench = GpuBench(
        sections, argv, Path(options.out), gpu_page, start_s=patience * SLOWEST_START_S, most_s=patience * MOST_S
    )
    with stop_flag() as stop:
        return measure_gpu(bench, stop, console.note)


def gpu_page(document: dict[str, Any]) -> str:
    """gpu.md."""
    page = io.StringIO()
    print_blocks(gpu_blocks(document), Console(page), is_markdown=True)
    return page.getvalue()


def tell_plan(options: argparse.Namespace, console: Console) -> None:
    """Prints the sections in order, the seconds of their parts and the sum of all, and starts nothing."""
    sections = chosen_sections(options.only)
    starts = len(by_process(sections))
    limit_s = START_S * starts + sum(section.limit_s for section in sections)
    if console.is_json:
        sums = {"start_s": START_S, "processes": starts, "limit_s": limit_s, "most_s": MOST_S}
        plan = {"plan": [section.to_json() for section in sections], "measured_on": MEASURED_ON, **sums}
        console.document({"schema_version": 1, "benchmark": "gpu", **plan})
        return
    for section in sections:
        console.print(f"{section.name}: {section.title}, about {section.expected_s:.0f} s, at most {section.limit_s} s")
        for kind in ("measured", "assumed"):
            if parts := getattr(section, kind):
                text = "; ".join(f"{what}: {seconds} s" for what, seconds in parts.items())
                console.wrapped(f"{kind}: {text}", "    ", "    ")
    console.print(f"start of each of {starts} processes: {START_S} s")
    source = f"measured seconds are of {MEASURED_ON}, the others are assumed"
    console.print(f"together at most {limit_s} s of {MOST_S} s; {source}")
