"""`evprof bench gpu`: every figure of a GPU in one go, its page, and its plan."""

from __future__ import annotations

import argparse
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evprof.cli.terminal import program
from evprof.cli.terminal.console import Console
from evprof.cli.terminal.tables import Row, print_rows
from evprof.core.errors import UsageError
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
    """The document, which is also in `--out`. Ctrl-C ends the current section and keeps what was measured.

    Raises UserError (exit code 2) without a folder and for words that mean nothing.
    """
    if options.out is None:
        raise UsageError("bench gpu needs a folder for what it measures; name it with --out.")
    if options.shape not in (None, *SIZES):
        raise UsageError(f"--shape of bench gpu is {' or '.join(SIZES)}, not {options.shape}.")
    is_on_cpu = options.device.startswith("cpu") or not has_gpu()
    patience = _CPU_PATIENCE if is_on_cpu else 1
    sections = [replace(section, limit_s=patience * section.limit_s) for section in chosen_sections(options.only)]
    where = ["--device", options.device, "--dtype", options.dtype]
    where += [] if options.shape is None else ["--shape", options.shape]

    def argv(together: Sequence[GpuSection]) -> list[str]:
        return program.program_argv("_gpu-section", *(f"{one.name}:{one.limit_s}" for one in together), *where)

    bench = GpuBench(
        sections, argv, Path(options.out), gpu_page, start_s=patience * SLOWEST_START_S, most_s=patience * MOST_S
    )
    with stop_flag() as stop:
        return measure_gpu(bench, stop, console.note)


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
    console.print(
        f"together at most {limit_s} s of {MOST_S} s, with {START_S} s for the start of each of {starts} processes"
    )


_TABLES: dict[str, tuple[str, tuple[str, ...]]] = {
    "ceilings": ("Ceilings of the machine", ()),
    "step": (
        "Decode, prefill and vision",
        (
            *("contender", "phase", "context", "ms", "ms_low", "ms_high", "tok_s", "mbu", "mfu", "vs_hf_eager"),
            *("same_positions", "compared_positions", "near_ties", "divergences", "turns", "reason"),
        ),
    ),
    "overhead": ("Instrumentation", ()),
    "switch": (
        "Every switch once",
        ("title", "against", "role", "run_speed", "stage_speed", "peak_on_bytes", "reason"),
    ),
    "parallel": ("Parallel prefill", ()),
    "block": ("Verified blocks", ()),
    "draft": ("Steps of the draft", ()),
    "memory": ("Memory", ()),
    "energy": ("Energy", ()),
    "trace": ("Exported trace", ()),
}
"""By figure: the title of its table, and the keys of gpu.json that are its columns (none: all that hold a value)."""

_SECTION_KEYS = ("name", "status", "seconds", "limit_s", "sentence")


def gpu_page(document: dict[str, Any]) -> str:
    page = io.StringIO()
    print_gpu(document, Console(page), is_markdown=True)
    return page.getvalue()


def print_gpu(document: Row, console: Console, *, is_markdown: bool = False) -> None:
    machine, settings = document["environment"], document["settings"]
    if machine:
        size = "7B shapes" if settings["size"] == "7b" else "tiny shapes, which only show that every section works"
        console.print(f"{machine['device']}, torch {machine['torch']}, {document['measured_at'][:10]}; {size}\n")
    print_rows(console, document["sections"], _SECTION_KEYS, title="Sections", is_markdown=is_markdown)
    for section in document["sections"]:
        for problem in section["problems"]:
            console.print(f"- {section['name']}: {problem}")
    for figure, (title, keys) in _TABLES.items():
        rows = [{**row, "figure": None, "section": None} for row in document["rows"] if row.get("figure") == figure]
        print_rows(console, rows, keys, title=title, is_markdown=is_markdown)
