"""Benchmarks of readers for people to read, in a terminal or as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evprof.cli.terminal.console import Console
from evprof.core.units import bytes_text, ms_text

_EVENT_HEADINGS = ("", "file", "Mev/s", "best", "beside", "Mev/s", "ratio", "CPU", "MB", "its MB", "right")


def print_events(document: dict[str, Any], console: Console, *, is_markdown: bool = False) -> None:
    """A row for each format, what was left out and why, windows and rendering."""
    settings, summary = document["settings"], document["summary"]
    console.print(
        f"{settings['events']:,} events · {settings['rounds']} rounds in turns, each in a process of its own · "
        f"{document['environment']['cpus']} CPUs · {_versions(document['environment']['libraries'])}"
    )
    console.print()
    print_table(_EVENT_HEADINGS, [_event_cells(row) for row in document["rows"]], console, is_markdown=is_markdown)
    console.print()
    for reason, formats in _reasons(document["rows"]).items():
        console.print(f"{', '.join(formats)}: {reason}")
    if summary["slowest_vs_library"] is not None:
        console.print(f"Slowest beside its library: {summary['slowest_format']}, {summary['slowest_vs_library']:.2f}x.")
    if summary["window_100ms_ms"] is not None:
        console.print(
            f"A window of 100 ms ({summary['window_events']:,} events at most) out of a DSEC file of "
            f"{bytes_text(summary['window_file_bytes'])}: {ms_text(summary['window_100ms_ms'])}, at most "
            f"{ms_text(summary['window_slowest_ms'])}, with {_mega(summary['window_peak_mb']) or '?'} MB; opened in "
            f"{ms_text(summary['window_open_ms'])}."
        )
    same = "the same pixels" if summary["render_is_identical"] else "OTHER PIXELS"
    console.print(
        f"EventGPT's picture of {summary['render_events']:,} events: {summary['render_vs_loop']:.0f}x a loop over "
        f"them, {same}."
    )


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], console: Console, *, is_markdown: bool) -> None:
    """Columns by spaces, or a table of Markdown."""
    if not is_markdown:
        console.table(headings, rows)
        return
    for cells in (headings, ["---"] * len(headings), *rows):
        console.print(f"| {' | '.join(cells)} |")


def _event_cells(row: dict[str, Any]) -> list[str]:
    return [
        row["format"],
        "" if row["file_bytes"] is None else f"{row['file_bytes'] / 1e6:.1f} MB",
        _rate(row["ours_mev_s"]),
        _rate(row["ours_best_mev_s"]),
        row["library"] or "",
        _rate(row["library_mev_s"]),
        _times(row["ratio"]),
        _times(row["cpu_ratio"]),
        _mega(row["ours_peak_mb"]),
        _mega(row["library_peak_mb"]),
        _right(row),
    ]


def _rate(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}x"


def _mega(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"


def _right(row: dict[str, Any]) -> str:
    if row["ours_equal"] is None:
        return ""
    return ("yes" if row["ours_equal"] else "NO") + (", library NO" if row["library_equal"] is False else "")


def _reasons(rows: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in rows:
        if row["reason"]:
            found.setdefault(row["reason"], []).append(row["format"])
    return found


def _versions(libraries: dict[str, str | None]) -> str:
    return ", ".join(f"{name} {version}" for name, version in libraries.items() if version)
