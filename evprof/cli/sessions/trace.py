"""A torch trace's figures as tables for a terminal."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from evprof.cli.terminal.console import Console
from evprof.cli.terminal.progress import Progress
from evprof.core.texts import one_line
from evprof.core.units import bytes_text, count_text, ms_text, percent_text
from evprof.loaders.paths import readable_file
from evprof.loaders.traces.reading import TraceProgress, read_trace, trace_at
from evprof.metrics.traces.analysis import TraceAnalysis
from evprof.metrics.traces.difference import DifferenceRow, TraceDifference, trace_difference
from evprof.metrics.traces.document import trace_document
from evprof.metrics.traces.modules import ModuleRow

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
    rows = USUAL_ROWS if options.rows is None else options.rows
    if console.is_json:
        console.document(trace_document(path, analysis, difference))
        return
    if difference is not None and other is not None:
        _print_difference(path, other, difference, _Tables(console, rows))
    else:
        _print_trace(path, analysis, _Tables(console, rows))
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

    def add(self, title: str, heads: Sequence[str], lines: Iterable[Sequence[str]], *, left: int = 1) -> None:
        listed = list(lines)
        if not listed:
            return
        rest = f" (the first {self._rows:,} of {len(listed):,})" if len(listed) > self._rows else ""
        self.console.print(f"\n{title}{rest}")
        self.console.table([list(heads), *listed[: self._rows]], left=left)


def _print_difference(path: str, against: str, difference: TraceDifference, tables: _Tables) -> None:
    tables.console.print(
        f"{path} ({_time(difference.wall_ns)}) against {against} ({_time(difference.against_wall_ns)})"
    )
    heads = ("name", "calls", "before", "host self", "before", "change", "device self", "before", "change")
    for title, changes in (("Operators", difference.operators), ("Modules", difference.modules)):
        tables.add(title, heads, map(_change, changes))


def _change(row: DifferenceRow) -> list[str]:
    now, before = row.now, row.against
    return [
        _name(row.name),
        f"{now.calls:,}",
        f"{before.calls:,}",
        _time(now.host_self_ns),
        _time(before.host_self_ns),
        _signed(row.host_self_delta_ns),
        _time(now.device_self_ns),
        _time(before.device_self_ns),
        _signed(row.device_self_delta_ns),
    ]


def _print_trace(path: str, analysis: TraceAnalysis, tables: _Tables) -> None:
    console = tables.console
    recorded = ", ".join(analysis.trace.head.recorded) or "no options"
    console.print(
        f"{path}: {count_text(analysis.trace.entries, 'item')} over {_time(analysis.end_ns - analysis.start_ns)} "
        f"({recorded})"
    )
    _print_overview(analysis, tables)
    operators = analysis.operators
    has_device = any(row.device_total_ns for row in operators)
    heads = ("name", "calls", "host self", "host total", *(("device self", "device total") if has_device else ()))
    tables.add(
        "Operators",
        heads,
        (
            [_name(row.name), f"{row.calls:,}", _time(row.host_self_ns), _time(row.host_total_ns)]
            + ([_time(row.device_self_ns), _time(row.device_total_ns)] if has_device else [])
            for row in operators
        ),
    )
    tables.add(
        "Kernels",
        ("name", "calls", "total", "mean", "min", "max", "blocks/SM", "occupancy", "tensor cores"),
        (
            [
                _name(row.name),
                f"{row.calls:,}",
                *map(_time, (row.total_ns, row.mean_ns, row.min_ns, row.max_ns)),
                "n/a" if row.blocks_per_sm is None else f"{row.blocks_per_sm:.2f}",
                _share(row.occupancy),
                "yes" if row.uses_tensor_cores else "no",
            ]
            for row in analysis.kernels
        ),
    )
    _print_memory(analysis, tables)
    heads = ("module", "calls", "operators", "host self", "host total", "device self", "device total")
    tables.add("Modules", heads, _indented(analysis.modules, 0))
    if analysis.advice:
        console.print("\nWhat could act on it")
        for advice in analysis.advice:
            console.wrapped(advice.sentence, "  - ", "    ")


def _print_overview(analysis: TraceAnalysis, tables: _Tables) -> None:
    seen = analysis.overview
    if seen is None:
        return
    steps = count_text(len(seen.steps), "step") if seen.steps[0].name else "the whole trace"
    tables.console.print(f"\nTime of {steps}: {_time(seen.wall_ns)}")
    categories = [
        (category.name, _time(category.ns), _share(category.share))
        for category in seen.categories
        if category.ns or category.name == "Other"
    ]
    tables.console.table([("", "time", "share"), *categories])
    tables.add(
        "GPUs",
        ("GPU", "name", "busy", "SM efficiency", "occupancy", "tensor cores", "kernels", "kernel time"),
        (
            [
                str(use.device),
                _name(use.name),
                *map(_share, (use.busy, use.sm_efficiency, use.occupancy, use.tensor_cores)),
                f"{use.kernels:,}",
                _time(use.kernel_ns),
            ]
            for use in seen.devices
        ),
        left=2,
    )
    tables.add(
        "Stages",
        ("stage", "begins", "host", "kernels", "device"),
        (
            [
                stage.name,
                _time(stage.start_ns - analysis.start_ns),
                _time(stage.end_ns - stage.start_ns),
                f"{stage.kernels:,}",
                _time(stage.device_ns),
            ]
            for stage in analysis.stages
        ),
    )


def _print_memory(analysis: TraceAnalysis, tables: _Tables) -> None:
    memory = analysis.memory
    if memory.curves:
        tables.console.print("\nMemory")
    for curve in memory.curves:
        at = _time(curve.peak_at_ns - analysis.start_ns)
        reserved = f", {bytes_text(curve.peak_reserved_bytes)} reserved" if curve.peak_reserved_bytes else ""
        tables.console.print(f"  {curve.device}: peak {bytes_text(curve.peak_bytes)} at {at}{reserved}")
    tables.add(
        "Memory by operator",
        ("name", "device", "kept alone", "kept in all", "allocations", "allocated"),
        (
            [
                _name(row.name),
                row.device,
                bytes_text(row.self_increase_bytes),
                bytes_text(row.total_increase_bytes),
                f"{row.self_allocations:,}",
                bytes_text(row.self_allocated_bytes),
            ]
            for row in memory.operators
        ),
        left=2,
    )


def _indented(modules: Iterable[ModuleRow], depth: int) -> Iterator[list[str]]:
    for row in modules:
        times = (row.host_self_ns, row.host_total_ns, row.device_self_ns, row.device_total_ns)
        yield ["  " * depth + _name(row.name), f"{row.calls:,}", f"{row.operators:,}", *map(_time, times)]
        yield from _indented(row.children, depth + 1)


def _name(name: str) -> str:
    short = one_line(name)
    return short if len(short) <= _LONGEST_NAME else f"{short[: _LONGEST_NAME - 1]}…"


def _time(ns: float) -> str:
    """As `ms_text`, with a tenth of short ones: kernels take microseconds."""
    return f"{ns / 1000:.1f} µs" if 0 < abs(ns) < 99_950 else ms_text(ns / 1e6)


def _signed(ns: int) -> str:
    return f"{'+' if ns > 0 else '−' if ns < 0 else '±'}{_time(abs(ns))}"


def _share(share: float | None) -> str:
    return percent_text(share, 1)
