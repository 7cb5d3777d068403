"""`evprof bench coverage` for people to read, in a terminal or as Markdown."""

from __future__ import annotations

from typing import Any

from evprof.cli.bench.loader_report import print_table
from evprof.cli.terminal.console import Console

_HEADINGS = ("simulated runs", "estimated", "n a side", "held", "of which 95 % sure", "width / oracle's")


def print_coverage(document: dict[str, Any], console: Console, *, is_markdown: bool = False) -> None:
    """A row for every kind of runs, and the lowest share of all."""
    summary = document["summary"]
    print_table(_HEADINGS, [_cells(row) for row in document["rows"]], console, is_markdown=is_markdown)
    console.print()
    if summary["lowest_coverage"] is not None:
        console.print(
            f"In each of {summary['rows']} rows, nominal 95 % intervals held the truth in at least "
            f"{_share(summary['lowest_coverage'])} of {summary['simulations']} simulations."
        )


def _cells(row: dict[str, Any]) -> list[str]:
    ends = row["coverage_ci95"]
    return [
        row["scenario"],
        row["estimator"],
        str(row["n"]),
        _share(row["coverage"]),
        "" if ends is None else f"{100 * ends[0]:.1f}–{100 * ends[1]:.1f} %",
        "" if row["width_ratio"] is None else f"{row['width_ratio']:.1f}",
    ]


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"
