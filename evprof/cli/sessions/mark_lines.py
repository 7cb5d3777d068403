"""The marks of a session for people: when, in which run, and what was noted."""

from __future__ import annotations

from collections.abc import Sequence

from evprof.cli.terminal.blocks import Column, PrintedTable, print_blocks
from evprof.cli.terminal.console import Console
from evprof.core.units import ms_from_ns
from evprof.session.marks import Mark

_COLUMNS: tuple[Column, ...] = (
    ("MARKS", "run {run_id}"),
    ("at", "{at:ms}"),
    ("length", "{length:ms}"),
    ("note", "{note}"),
)


def print_marks(marks: Sequence[Mark], console: Console) -> None:
    """A line for each."""
    if not marks:
        return
    told = [
        {
            "run_id": mark.run_id,
            "at": ms_from_ns(mark.start_ns),
            "length": ms_from_ns(mark.end_ns - mark.start_ns) or None,
            "note": mark.note or None,
        }
        for mark in marks
    ]
    console.print()
    print_blocks([PrintedTable(_COLUMNS, told, missing="")], console)
