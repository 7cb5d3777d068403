"""Tables whose columns say how a row is read, for commands and benchmarks that print many."""

from __future__ import annotations

import string
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evprof.cli.terminal.console import Console
from evprof.core.units import bytes_text, ms_text, percent_text, times_text

Row = Mapping[str, Any]

Column = tuple[str, str | Callable[[Row], str]]
"""A heading, and what stands below it: a template such as `{median_ms:ms}`, or a function of the row."""


@dataclass(frozen=True)
class PrintedTable:
    """A table: `missing` replaces a value of None; the first `left` columns, or those of these numbers, are texts."""

    columns: Sequence[Column]
    rows: Iterable[Row]
    missing: str = ""
    left: int | Collection[int] = 1
    is_ruled: bool = False

    @property
    def lines(self) -> list[list[str]]:
        body = [[self._cell(row, read) for _, read in self.columns] for row in self.rows]
        return [[heading for heading, _ in self.columns], *body]

    def _cell(self, row: Row, read: str | Callable[[Row], str]) -> str:
        return filled(read, row, self.missing) if isinstance(read, str) else read(row)


@dataclass(frozen=True)
class TableName:
    """The name of the table that follows."""

    text: str


Block = str | TableName | PrintedTable


def print_blocks(blocks: Iterable[Block], console: Console, *, is_markdown: bool = False) -> None:
    for block in blocks:
        match block:
            case TableName(text):
                console.print(f"**{text}**\n" if is_markdown else text)
            case PrintedTable():
                console.table(block.lines, left=block.left, is_ruled=block.is_ruled, is_markdown=is_markdown)
            case _:
                console.print(block)


def filled(template: str, values: Row, missing: str = "n/a") -> str:
    """`{seconds:.1f} s`, filled in; `missing` where a value is None.

    Beside Python's formats there are `ms`, `bytes`, `percent`, `share` (percent with one decimal) and `times`.
    """
    try:
        return _TEXTS.vformat(template, (), values)
    except TypeError:  # of None
        return missing


class _Texts(string.Formatter):
    def format_field(self, value: Any, spec: str) -> str:
        if value is None:
            raise TypeError
        return _FORMATS[spec](value) if spec in _FORMATS else str(format(value, spec))


_FORMATS: dict[str, Callable[[Any], str]] = {
    "ms": ms_text,
    "bytes": bytes_text,
    "percent": percent_text,
    "share": lambda part: percent_text(part, 1),
    "times": times_text,
}

_TEXTS = _Texts()
