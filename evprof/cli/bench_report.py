"""Rows of benchmarks for people to read in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evprof.cli.console import Console
from evprof.core.units import ms_text

_HEADINGS = ("", "time", "middle half", "tok/s", "vs hf_eager", "same tokens", "MBU", "MFU", "turns")


def print_engine_rows(rows: Sequence[dict[str, Any]], console: Console) -> None:
    """One table: phases and contenders, with what each took and how near to the ceiling that is."""
    body = [_cells(row) for row in rows if row["status"] == "measured"]
    console.table(_HEADINGS, body)
    for row in rows:
        if row["status"] != "measured" and row["phase"] == "decode":
            console.print(f"{row['contender']} skipped: {row['reason']}")
    console.print()


def _cells(row: dict[str, Any]) -> list[str]:
    against = row["vs_hf_eager"]
    return [
        f"{row['phase']} {row['contender']}",
        ms_text(row["ms"]) + (" / token" if row["phase"] == "decode" else ""),
        f"{ms_text(row['ms_low'])} … {ms_text(row['ms_high'])}",
        "" if row["tok_s"] is None else f"{row['tok_s']:.1f}",
        "" if against is None else f"{against:.2f}x",
        _share(row["agreement"]),
        _share(row["mbu"]),
        _share(row["mfu"]),
        str(row["turns"]),
    ]


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"
