"""`evprof bench parts` for people to read, in a terminal or as Markdown."""

from __future__ import annotations

from typing import Any

from evprof.cli.bench.loader_report import print_table
from evprof.cli.terminal.console import Console
from evprof.core.units import ms_text

_HEADINGS = ("", "of", "median", "best", "worst", "a second")


def print_parts(document: dict[str, Any], console: Console, *, is_markdown: bool = False) -> None:
    """A row for each part."""
    console.print(f"{document['settings']['rounds']} turns each · {document['environment']['cpus']} CPUs")
    console.print()
    body = [
        [
            row["part"],
            f"{row['amount']:,} {row['unit']}",
            *(ms_text(row[key]) for key in ("ms", "best_ms", "worst_ms")),
            f"{row['per_s']:,.0f} {row['unit']}",
        ]
        for row in document["rows"]
    ]
    print_table(_HEADINGS, body, console, is_markdown=is_markdown)
