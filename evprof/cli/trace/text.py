"""A trace's figures as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from evprof.cli.terminal.console import Console
from evprof.core.safe_text import one_line
from evprof.core.units import bytes_text, count_text, ms_text, percent_text
from evprof.metrics.traces.analysis import TraceAnalysis
from evprof.metrics.traces.difference import DifferenceRow, TraceDifference
from evprof.metrics.traces.modules import ModuleRow

_LONGEST_NAME = 70


def print_trace(path: str, analysis: TraceAnalysis, console: Console, rows: int) -> None:
    """All panes that the trace has something for."""
    head = analysis.trace.head
    recorded = ", ".join(head.recorded) or "no options"
    console.print(
        f"{path}: {count_text(analysis.trace.entries, 'item')} over {_time(analysis.end_ns - analysis.start_ns)} "
        f"({recorded})"
    )
    _print_overview(analysis, console, rows)
    _print_operators(analysis, console, rows)
    _print_kernels(analysis, console, rows)
    _print_memory(analysis, console, rows)
    _print_modules(analysis.modules, console, rows)
    if analysis.advice:
        console.print("\nWhat could act on it")
        for one in analysis.advice:
            console.wrapped(one.sentence, "  - ", "    ")


def print_difference(path: str, against: str, found: TraceDifference, console: Console, rows: int) -> None:
    """What changed."""
    console.print(f"{path} ({_time(found.wall_ns)}) against {against} ({_time(found.against_wall_ns)})")
    for title, changes in (("Operators", found.operators), ("Modules", found.modules)):
        if changes:
            _print_table(console, title, _CHANGE_HEADS, [_change(row) for row in changes], rows)


_CHANGE_HEADS = ("name", "calls", "before", "host self", "before", "change", "device self", "before", "change")


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


def _print_overview(analysis: TraceAnalysis, console: Console, rows: int) -> None:
    seen = analysis.overview
    if seen is None:
        return
    steps = count_text(len(seen.steps), "step") if seen.steps[0].name else "the whole trace"
    console.print(f"\nTime of {steps}: {_time(seen.wall_ns)}")
    console.table(
        [("", "time", "share")]
        + [(one.name, _time(one.ns), _share(one.share)) for one in seen.categories if one.ns or one.name == "Other"]
    )
    if seen.devices:
        heads = ("GPU", "name", "busy", "SM efficiency", "occupancy", "tensor cores", "kernels", "kernel time")
        console.print()
        console.table(
            [heads]
            + [
                (
                    str(use.device),
                    _name(use.name),
                    _share(use.busy),
                    _share(use.sm_efficiency),
                    _share(use.occupancy),
                    _share(use.tensor_cores),
                    f"{use.kernels:,}",
                    _time(use.kernel_ns),
                )
                for use in seen.devices
            ],
            left=2,
        )
    if analysis.stages:
        columns = ("stage", "begins", "host", "kernels", "device")
        lines = [
            [
                stage.name,
                _time(stage.start_ns - analysis.start_ns),
                _time(stage.end_ns - stage.start_ns),
                f"{stage.kernels:,}",
                _time(stage.device_ns),
            ]
            for stage in analysis.stages
        ]
        _print_table(console, "Stages", columns, lines, rows)


def _print_operators(analysis: TraceAnalysis, console: Console, rows: int) -> None:
    found = analysis.operators
    has_device = any(row.device_total_ns for row in found)
    heads = ("name", "calls", "host self", "host total", *(("device self", "device total") if has_device else ()))
    lines = [
        [
            _name(row.name),
            f"{row.calls:,}",
            _time(row.host_self_ns),
            _time(row.host_total_ns),
            *((_time(row.device_self_ns), _time(row.device_total_ns)) if has_device else ()),
        ]
        for row in found
    ]
    _print_table(console, "Operators", heads, lines, rows)


def _print_kernels(analysis: TraceAnalysis, console: Console, rows: int) -> None:
    heads = ("name", "calls", "total", "mean", "min", "max", "blocks/SM", "occupancy", "tensor cores")
    lines = [
        [
            _name(row.name),
            f"{row.calls:,}",
            _time(row.total_ns),
            _time(row.mean_ns),
            _time(row.min_ns),
            _time(row.max_ns),
            "n/a" if row.blocks_per_sm is None else f"{row.blocks_per_sm:.2f}",
            _share(row.occupancy),
            "yes" if row.uses_tensor_cores else "no",
        ]
        for row in analysis.kernels
    ]
    _print_table(console, "Kernels", heads, lines, rows)


def _print_memory(analysis: TraceAnalysis, console: Console, rows: int) -> None:
    found = analysis.memory
    if found.curves:
        console.print("\nMemory")
    for curve in found.curves:
        at = _time(curve.peak_at_ns - analysis.start_ns)
        reserved = f", {bytes_text(curve.peak_reserved_bytes)} reserved" if curve.peak_reserved_bytes else ""
        console.print(f"  {curve.device}: peak {bytes_text(curve.peak_bytes)} at {at}{reserved}")
    heads = ("name", "device", "kept alone", "kept in all", "allocations", "allocated")
    lines = [
        [
            _name(row.name),
            row.device,
            bytes_text(row.self_increase_bytes),
            bytes_text(row.total_increase_bytes),
            f"{row.self_allocations:,}",
            bytes_text(row.self_allocated_bytes),
        ]
        for row in found.operators
    ]
    _print_table(console, "Memory by operator", heads, lines, rows, left=2)


def _print_modules(modules: Sequence[ModuleRow], console: Console, rows: int) -> None:
    heads = ("module", "calls", "operators", "host self", "host total", "device self", "device total")
    _print_table(console, "Modules", heads, list(_indented(modules, 0)), rows)


def _indented(modules: Iterable[ModuleRow], depth: int) -> Iterator[list[str]]:
    for row in modules:
        yield [
            "  " * depth + _name(row.name),
            f"{row.calls:,}",
            f"{row.operators:,}",
            _time(row.host_self_ns),
            _time(row.host_total_ns),
            _time(row.device_self_ns),
            _time(row.device_total_ns),
        ]
        yield from _indented(row.children, depth + 1)


def _print_table(
    console: Console, title: str, heads: Sequence[str], lines: Sequence[list[str]], rows: int, *, left: int = 1
) -> None:
    if not lines:
        return
    rest = f" (the first {rows:,} of {len(lines):,})" if len(lines) > rows else ""
    console.print(f"\n{title}{rest}")
    console.table([list(heads), *lines[:rows]], left=left)


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
