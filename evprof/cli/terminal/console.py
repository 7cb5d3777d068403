"""Where a command's words go: results to standard output, everything else to standard error."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from textwrap import fill
from typing import Any, TextIO

from evprof.cli.terminal.fitting import GAP, Cell, fitted, folded, piece, total_width, widths_of
from evprof.core.safe_text import visible

WIDTH = 150
"""Columns of text where no terminal says otherwise."""

SENTENCE_WIDTH = 110
"""Letters of a line of a longer text."""

HELP_WIDTH = 78
"""Letters of a line of a help's lists, as argparse writes the rest."""


def printable(text: str) -> str:
    """`text` with what would steer a terminal, or turn a line around, told by its number: names are others' words."""
    return visible(text)


class Console:
    """Two streams and how to write to them.

    `is_json` promises exactly one document on standard output, `is_quiet` nothing but warnings on standard error.
    `is_followed`: a program reads the progress, in lines of its own (`evprof.run.works.work_form`).
    `is_brief`: progress has no lines for runs that begin and end.
    """

    def __init__(
        self,
        output: TextIO | None = None,
        errors: TextIO | None = None,
        *,
        is_json: bool = False,
        is_quiet: bool = False,
        is_followed: bool = False,
    ) -> None:
        self.output: TextIO = output or sys.stdout
        self.errors: TextIO = errors or sys.stderr
        self.is_json = is_json
        self.is_quiet = is_quiet
        self.is_followed = is_followed
        self.is_brief = False

    @property
    def is_terminal(self) -> bool:
        """Whether a person watches progress as it happens."""
        return not self.is_quiet and self.errors.isatty()

    @property
    def width(self) -> int:
        """What a line of the result holds."""
        if not self.output.isatty():
            return WIDTH
        asked = os.environ.get("COLUMNS", "")
        if asked.isdecimal() and int(asked):
            return int(asked)
        try:  # of this very stream: what `shutil` asks, `sys.__stdout__`, may have been given up for it
            return os.get_terminal_size(self.output.fileno()).columns or WIDTH
        except (OSError, ValueError):
            return WIDTH

    def print(self, text: str = "") -> None:
        """One piece of the result, for people. Not for use with --json."""
        print(printable(text), file=self.output)

    def folded(self, text: str) -> None:
        """A line that may be longer than the terminal is wide: what does not fit goes on below its last column. Who
        reads without a terminal has it in one line."""
        for line in text.split("\n"):
            self.print(folded(line, self.width) if self.output.isatty() else line)

    def line(self, *cells: Cell) -> None:
        """One line of the result, with colour on a terminal and without it everywhere else."""
        pieces = [piece(cell) for cell in cells]
        if not self.output.isatty() or not any(style for _, style in pieces):
            self.print("".join(text for text, _ in pieces).rstrip())
            return
        from rich.console import Console as RichConsole
        from rich.text import Text

        RichConsole(file=self.output, highlight=False).print(Text.assemble(*pieces), soft_wrap=True)

    def wrapped(self, text: str, first: str = "", others: str = "", width: int = SENTENCE_WIDTH) -> None:
        """A text that may be long, its lines indented by `first` and `others`; no name is broken."""
        shown = fill(
            text,
            width,
            initial_indent=first,
            subsequent_indent=others,
            break_long_words=False,
            break_on_hyphens=False,
        )
        self.print(shown)

    def document(self, document: Mapping[str, Any]) -> None:
        """The result as JSON: one document, and the last thing written."""
        json.dump(document, self.output, indent=2, ensure_ascii=False, allow_nan=False)
        self.output.write("\n")
        self.output.flush()

    def note(self, text: str) -> None:
        """Progress, and what was saved where; not with --quiet."""
        if not self.is_quiet:
            self.warn(text)

    def follow(self, line: str) -> None:
        """A line for the program that follows this one; it is not for people."""
        print(line, file=self.errors, flush=True)

    def warn(self, text: str) -> None:
        """What a person must know though the command went on, after the lines of the result before it."""
        with contextlib.suppress(OSError, ValueError):  # a result that cannot be written is reported when it ends
            self.output.flush()
        print(printable(text), file=self.errors, flush=True)

    def table(
        self,
        lines: Sequence[Sequence[Cell]],
        *,
        left: int | Collection[int] = 1,
        is_ruled: bool = False,
        is_markdown: bool = False,
    ) -> None:
        """Headings and rows in columns: the first `left`, or those of these numbers, flushed left, the others, being
        numbers, right. `is_ruled`: with a line below the headings. `is_markdown`: as a table of Markdown, in which
        only columns named by numbers are flushed."""
        if is_markdown:
            rule = ["---" if isinstance(left, int) or place in left else "---:" for place in range(len(lines[0]))]
            for row in (lines[0], rule, *lines[1:]):
                self.print(f"| {' | '.join(piece(cell)[0] for cell in row)} |")
            return
        flushed = set(range(left) if isinstance(left, int) else left)
        if not self.output.isatty():
            self._print_table(lines, flushed, is_ruled)
            return
        names = next(place for place in range(len(lines[0]) + 1) if place not in flushed)
        for number, table in enumerate(fitted(lines, names, self.width)):
            if number:
                self.print()
            self._print_table(table, flushed if len(table[0]) == len(lines[0]) else set(range(names)), is_ruled)

    def _print_table(self, lines: Sequence[Sequence[Cell]], flushed: Collection[int], is_ruled: bool) -> None:
        widths = widths_of(lines)
        for number, row in enumerate(lines):
            pieces: list[Cell] = []
            for place, (cell, width) in enumerate(zip(row, widths, strict=True)):
                space = " " * (width - len(piece(cell)[0]))
                pieces += [cell, space, GAP] if place in flushed else [space, cell, GAP]
            self.line(*pieces[:-1])
            if is_ruled and not number:
                self.print("─" * total_width(lines))
