"""Tables of JSON rows, whose columns are keys."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from evprof.cli.terminal.console import Console, shown

Row = Mapping[str, Any]


def print_rows(
    console: Console,
    rows: Sequence[Row],
    keys: Collection[str] = (),
    *,
    title: str = "",
    is_markdown: bool = False,
) -> None:
    """A table of `keys` (none: of all that hold a number, a text or a list). Columns without any value are left out."""
    known = dict.fromkeys(
        key for row in rows for key, value in row.items() if isinstance(value, str | int | float | list)
    )
    columns = [key for key in keys or known if key in known]
    if not columns:
        return
    if title:
        console.print(f"**{title}**\n" if is_markdown else title)
    texts = [place for place, key in enumerate(columns) if all(isinstance(row.get(key), str | None) for row in rows)]
    lines = [[shown(key, row.get(key)) for key in columns] for row in rows]
    console.table([columns, *lines], left=texts, is_markdown=is_markdown)
    console.print()
