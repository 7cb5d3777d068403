"""Where a command's words go: results to standard output, everything else to standard error."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """`text` with what would steer a terminal, or turn a line around, told as `�`: names come out of others' files."""
    return _CONTROL.sub("�", text)


class Console:
    """Two streams and how to write to them; `is_json` promises exactly one document on standard output."""

    def __init__(self, output: TextIO | None = None, errors: TextIO | None = None, *, is_json: bool = False) -> None:
        self.output: TextIO = output or sys.stdout
        self.errors: TextIO = errors or sys.stderr
        self.is_json = is_json

    @property
    def is_terminal(self) -> bool:
        """Whether a person watches progress as it happens."""
        return self.errors.isatty()

    def print(self, text: str = "") -> None:
        """One piece of the result, for people. Not for use with --json."""
        print(printable(text), file=self.output)

    def document(self, document: Mapping[str, Any]) -> None:
        """The result as JSON: one document, and the last thing written."""
        json.dump(document, self.output, indent=2, ensure_ascii=False, allow_nan=False)
        self.output.write("\n")
        self.output.flush()

    def note(self, text: str) -> None:
        """Progress, warnings and errors."""
        print(printable(text), file=self.errors, flush=True)

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> None:
        """Columns by spaces; the first `left` are flushed left, the others, being numbers, right."""
        widths = [max(len(row[index]) for row in [headings, *rows]) for index in range(len(headings))]
        for row in (headings, *rows):
            cells = [
                cell.ljust(width) if index < left else cell.rjust(width)
                for index, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            self.print("  ".join(cells).rstrip())
