"""Where a command's words go: results to standard output, everything else to standard error."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any, TextIO

from evprof.core.texts import escaped, visible
from evprof.core.units import bytes_text, number_text

if TYPE_CHECKING:
    from rich.console import RenderableType

SENTENCE_WIDTH = 110
"""Letters of a line of a longer text."""

HELP_WIDTH = 78
"""Letters of a line of a help's lists, as argparse writes the rest."""

_UNLIMITED = 100_000
"""Columns of a stream that is no terminal: no line is wrapped or cut there."""

Cell = str | tuple[str, str]
"""A text, with its style as rich names it."""


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
        """Columns of the result's terminal; without one lines have no limit."""
        if not self.output.isatty():
            return _UNLIMITED
        try:
            columns = os.get_terminal_size(self.output.fileno()).columns
        except (OSError, ValueError):
            columns = 0
        variable = os.environ.get("COLUMNS", "")
        return int(variable) if variable.isdecimal() and int(variable) else columns or 80

    def print(self, text: str = "") -> None:
        """One piece of the result, for people. Not for use with --json."""
        print(visible(text), file=self.output)

    def line(self, *cells: Cell) -> None:
        """One line of the result, with colour on a terminal and without it everywhere else."""
        from rich.text import Text

        pieces = [(cell, "") if isinstance(cell, str) else cell for cell in cells]
        self.render(Text.assemble(*((visible(text), style) for text, style in pieces)))

    def wrapped(self, text: str, first: str = "", others: str = "", width: int = SENTENCE_WIDTH) -> None:
        """A text that may be long, its lines indented by `first` and `others`; no name is broken."""
        room = min(width, self.width)
        self.print(fill(text, room, initial_indent=first, subsequent_indent=others, break_long_words=False))

    def table(
        self,
        lines: Sequence[Sequence[Cell]],
        *,
        left: int | Collection[int] = 1,
        is_markdown: bool = False,
        indent: int = 0,
    ) -> None:
        """Headings and rows in columns.

        The first `left` columns, or those of these numbers, are flushed left; the others are numbers, flushed right. A
        terminal that is too narrow wraps within cells. `is_markdown`: as a table of Markdown.
        """
        flushed = set(range(left) if isinstance(left, int) else left)
        texts = [[(cell, "") if isinstance(cell, str) else cell for cell in row] for row in lines]
        if is_markdown:
            rule = ["---" if place in flushed else "---:" for place in range(len(lines[0]))]
            for cells in ([text for text, _ in texts[0]], rule, *([text for text, _ in row] for row in texts[1:])):
                self.print(f"| {' | '.join(cells)} |")
            return
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, show_edge=False, padding=(0, 2, 0, 0), pad_edge=False)
        for place, (heading, style) in enumerate(texts[0]):
            side = "left" if place in flushed else "right"
            table.add_column(Text(visible(heading), style), justify=side, overflow="fold", header_style="")  # type: ignore[arg-type]  # a literal
        for row in texts[1:]:
            table.add_row(*(Text(visible(text), style) for text, style in row))
        self.render(Padding(table, (0, 0, 0, indent)) if indent else table)

    def render(self, renderable: RenderableType) -> None:
        """Prints what rich can draw: with colours and within the width of a terminal, else whole and plain."""
        from rich.console import Console as RichConsole

        if self.output.isatty():
            RichConsole(file=self.output, width=self.width, height=100, highlight=False, markup=False).print(renderable)
            return
        whole = io.StringIO()
        RichConsole(file=whole, width=_UNLIMITED, color_system=None, highlight=False, markup=False).print(renderable)
        for line in whole.getvalue().splitlines():
            print(line.rstrip(), file=self.output)

    def facts(self, document: Mapping[str, Any]) -> None:
        for line in _facts_lines(document):
            self.print(line)

    def sentences(self, head: str, sentences: Iterable[str]) -> None:
        for number, sentence in enumerate(sentences):
            if not number:
                self.print(f"{head}:")
            self.wrapped(sentence, "  ", "    ")

    def document(self, document: Mapping[str, Any]) -> None:
        # In pieces: the runs of a large session are made while they are written.
        for piece in json.JSONEncoder(indent=2, ensure_ascii=False, allow_nan=False).iterencode(document):
            self.output.write(escaped(piece))
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
        """What a person must know though the command continues, after the lines of the result before it.

        A stream that cannot be written costs no measurement: a lost result is reported at the end.
        """
        with contextlib.suppress(OSError, ValueError):
            self.output.flush()
        with contextlib.suppress(OSError, ValueError):
            print(visible(text), file=self.errors, flush=True)


_MOST_ENTRIES = 12
"""Entries of a list that are shown."""


def _facts_lines(document: Mapping[str, Any], indent: str = "") -> Iterable[str]:
    for name, value in document.items():
        if isinstance(value, dict):
            yield f"{indent}{name}:"
            yield from _facts_lines(value, f"{indent}  ")
        elif isinstance(value, list) and value and not all(isinstance(entry, int | float) for entry in value):
            yield f"{indent}{name}:"
            for entry in value[:_MOST_ENTRIES]:
                yield from _facts_lines(entry, f"{indent}  ") if isinstance(entry, dict) else [f"{indent}  {entry}"]
            if len(value) > _MOST_ENTRIES:
                yield f"{indent}  … ({len(value):,} in all)"
        else:
            yield f"{indent}{name:<{max(26, len(name) + 2)}}{shown(name, value)}"


def shown(name: str, value: Any) -> str:
    """The value of a key of JSON for people: byte counts with their unit, `n/a` for None."""
    if value is None:
        return "n/a"
    if isinstance(value, list | dict):
        return ", ".join(shown("", entry) for entry in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        if name.endswith("bytes"):
            return bytes_text(value)
        return number_text(value) if isinstance(value, float) else f"{value:,}"
    return str(value)
