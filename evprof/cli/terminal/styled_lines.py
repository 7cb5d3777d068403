"""Lines with colour on a terminal and without it everywhere else, and tables of them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from evprof.cli.terminal.console import Console

WIDTH = 150
"""Columns of text where no terminal says otherwise."""

Piece = tuple[str, str]
"""A text and its style as rich names it, "" for none."""

GAP = "  "


class StyledLines:
    """Where the result of a command goes, line by line; `width` is what a line holds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._is_terminal = console.output.isatty()
        self.width = shutil.get_terminal_size((WIDTH, 24)).columns if self._is_terminal else WIDTH

    def line(self, *pieces: Piece | str) -> None:
        """One line; a piece without style may be plain text."""
        parts = [(piece, "") if isinstance(piece, str) else piece for piece in pieces]
        if not self._is_terminal or not any(style for _, style in parts):
            self._console.print("".join(text for text, _ in parts).rstrip())
            return
        from rich.console import Console as RichConsole
        from rich.text import Text

        RichConsole(file=self._console.output, highlight=False).print(Text.assemble(*parts), soft_wrap=True)

    def table(self, lines: Sequence[Sequence[Piece]], *, left: int = 1) -> None:
        """Cells in columns; the first `left` are flushed left, the others, being numbers, right."""
        widths = widths_of(lines)
        for line in lines:
            pieces: list[Piece] = []
            for place, ((text, style), width) in enumerate(zip(line, widths, strict=True)):
                space = (" " * (width - len(text)), "")
                pieces += [(text, style), space] if place < left else [space, (text, style)]
                pieces.append((GAP, ""))
            self.line(*pieces[:-1])


def widths_of(lines: Sequence[Sequence[Piece]]) -> list[int]:
    """How many letters each column of a table takes."""
    return [max(len(line[place][0]) for line in lines) for place in range(len(lines[0]))]


def total_width(lines: Sequence[Sequence[Piece]]) -> int:
    """How many letters a line of a table takes."""
    widths = widths_of(lines)
    return sum(widths) + len(GAP) * (len(widths) - 1)
