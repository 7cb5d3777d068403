"""A torch trace's figures as tables for a terminal."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evprof.cli.terminal.console import Console
from evprof.cli.terminal.progress import Progress
from evprof.core.texts import one_line
from evprof.core.units import bytes_text, count_text
from evprof.loaders.paths import readable_file
from evprof.loaders.traces.reading import TraceProgress, read_trace, trace_at
from evprof.metrics.traces.analysis import TraceAnalysis
from evprof.metrics.traces.difference import TraceDifference, trace_difference
from evprof.metrics.traces.tables import (
    CATEGORY,
    CHANGES,
    DEVICE_TIMES,
    DEVICES,
    HOST,
    KERNELS,
    OPERATOR_MEMORY,
    OPERATORS,
    STAGES,
    Column,
    time_of,
    trace_document,
)

USUAL_ROWS = 12

_LONG_BYTES, _LONG_PACKED_BYTES = 64 << 20, 4 << 20
"""Shorter traces have no progress."""

_LONGEST_NAME = 70


def show_trace(options: argparse.Namespace, console: Console) -> None:
    """Reads one trace, or two to compare, and prints the figures. Raises UserError, Cancelled."""
    path = str(trace_at(options.path))
    other = None if options.against is None else str(trace_at(options.against))
    analysis = _analysed(path, console)
    difference = None if other is None else trace_difference(analysis, _analysed(other, console))
    if console.is_json:
        console.document(trace_document(path, analysis, difference))
        return
    tables = _Tables(console, USUAL_ROWS if options.rows is None else options.rows)
    if difference is not None:
        _print_difference(path, str(other), difference, tables)
    else:
        _print_trace(path, analysis, tables)
    for problem in analysis.problems:
        console.warn(problem)


def _analysed(path: str, console: Console) -> TraceAnalysis:
    file_bytes = readable_file(path).stat().st_size
    with Progress(console, f"reading {Path(path).name}") as bar, bar.until_stopped() as stop:
        bar.kept = "nothing"
        bar.start(file_bytes)

        def look(progress: TraceProgress) -> None:
            if file_bytes >= (_LONG_PACKED_BYTES if path.endswith(".gz") else _LONG_BYTES):
                bar.reach(progress.read_bytes, f"{progress.entries:,} entries")

        return TraceAnalysis(read_trace(path, look, stop))


class _Tables:
    """Prints tables of at most so many rows."""

    def __init__(self, console: Console, rows: int) -> None:
        self.console = console
        self._rows = rows

    def add(self, title: str, columns: Sequence[Column], records: Sequence[Any], *, is_whole: bool = False) -> None:
        shown = records if is_whole else records[: self._rows]
        if not shown:
            return
        rest = f" (the first {len(shown):,} of {len(records):,})" if len(records) > len(shown) else ""
        self.console.print(f"\n{title}{rest}")
        lines = [[_short(column, record) for column in columns] for record in shown]
        left = 1 + max(place for place, column in enumerate(columns) if column.is_text)
        self.console.table([[column.head for column in columns], *lines], left=left)


def _short(column: Column, record: Any) -> str:
    text = column.text(record)
    if not column.is_text:
        return text
    text = one_line(text)
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"


def _print_difference(path: str, against: str, difference: TraceDifference, tables: _Tables) -> None:
    tables.console.print(
        f"{path} ({time_of(difference.wall_ns)}) against {against} ({time_of(difference.against_wall_ns)})"
    )
    tables.add("Operators", CHANGES, difference.operators)


def _print_trace(path: str, analysis: TraceAnalysis, tables: _Tables) -> None:
    console = tables.console
    recorded = ", ".join(analysis.trace.head.recorded) or "no options"
    items = count_text(analysis.trace.entries, "item")
    console.print(f"{path}: {items} over {time_of(analysis.end_ns - analysis.start_ns)} ({recorded})")
    seen = analysis.overview
    if seen is not None:
        steps = count_text(len(seen.steps), "step") if seen.steps[0].name else "the whole trace"
        categories = [one for one in seen.categories if one.ns or one.name == "Other"]
        tables.add(f"Time of {steps}: {time_of(seen.wall_ns)}", CATEGORY, categories, is_whole=True)
        tables.add("GPUs", DEVICES, seen.devices)
        tables.add("Stages", STAGES, analysis.stages)
    has_device = any(row.device_total_ns for row in analysis.operators)
    tables.add("Operators", (OPERATORS[0], *HOST, *(DEVICE_TIMES if has_device else ())), analysis.operators)
    tables.add("Kernels", KERNELS, analysis.kernels)
    if analysis.memory.curves:
        console.print("\nMemory")
    for curve in analysis.memory.curves:
        at = time_of(curve.peak_at_ns - analysis.start_ns)
        reserved = f", {bytes_text(curve.peak_reserved_bytes)} reserved" if curve.peak_reserved_bytes else ""
        console.print(f"  {curve.device}: peak {bytes_text(curve.peak_bytes)} at {at}{reserved}")
    tables.add("Memory by operator", OPERATOR_MEMORY, analysis.memory.operators)
