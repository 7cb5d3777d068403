"""The marks of a session for people: when, in which run, and what was noted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evprof.cli.terminal.blocks import Column, PrintedTable, print_blocks
from evprof.cli.terminal.console import Console

_COLUMNS: tuple[Column, ...] = (
    ("MARKS", "run {run_id}"),
    ("at", "{at_ms:ms}"),
    ("length", "{length_ms:ms}"),
    ("note", "{note}"),
)


def print_marks(marks: Sequence[dict[str, Any]], console: Console) -> None:
    """A line for each of them, as JSON tells them."""
    if not marks:
        return
    # A moment has no length to tell.
    told = [mark | {"length_ms": mark["length_ms"] or None, "note": mark["note"] or None} for mark in marks]
    console.print()
    print_blocks([PrintedTable(_COLUMNS, told, missing="")], console)
