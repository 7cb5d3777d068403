"""What a conversion has finished, kept beside its results so that it goes on after a kill.

One line per finished file, written only after the file is in its place. A line counts only while the file it names has
the bytes it had, and the task still has the key it had.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from evprof.core.errors import UserError
from evprof.core.plain import Plain
from evprof.core.whole_file import whole_file
from evprof.loaders.paths import reason
from evprof.run.conversion.task import Written, size_of

NAME = "conversion.jsonl"
VERSION = 1

_HEAD = {"evprof_conversion": VERSION}
_LONGEST_BYTES = 1 << 30


@dataclass(frozen=True)
class JournalEntry(Plain):
    """One finished task: its output below the folder, its key, and what was written."""

    output: str
    key: str
    written: Written


class Journal:
    """The journal of one folder, open for going on. A context manager."""

    NAME = NAME

    def __init__(self, folder: Path) -> None:
        """Reads what is there. Raises UserError when that is no journal."""
        self.folder = folder
        self.path = folder / NAME
        self.entries: dict[str, JournalEntry] = {}
        self._file: IO[str] | None = None
        if self.path.exists():
            self._read()

    def is_done(self, output: str, key: str) -> bool:
        """Whether this task's result is there, whole, and what would be made again."""
        entry = self.entries.get(output)
        if not key or entry is None or entry.key != key:
            return False
        try:
            return (self.folder / output).exists() and size_of(self.folder / output) == entry.written.bytes
        except OSError:
            return False

    def add(self, entry: JournalEntry) -> None:
        """Notes a finished task, at once, after `begin`. Raises OSError."""
        self.entries[entry.output] = entry
        if self._file is not None:
            self._file.write(_line(entry.to_json()))
            self._file.flush()

    def begin(self) -> None:
        """Writes the journal anew, without what a kill may have left half a line of. Raises OSError."""
        self.close()
        self.rewrite(self.entries)
        self._file = self.path.open("a", encoding="utf-8", newline="\n")

    def rewrite(self, outputs: Iterable[str]) -> None:
        """All entries, those of these outputs first and in this order. Raises OSError."""
        first = [output for output in outputs if output in self.entries]
        others = sorted(self.entries.keys() - set(first))
        with whole_file(self.path) as stream:
            stream.write(_line(_HEAD))
            for output in (*first, *others):
                stream.write(_line(self.entries[output].to_json()))

    def close(self) -> None:
        """Lets go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self) -> None:
        try:
            if self.path.stat().st_size > _LONGEST_BYTES:
                raise UserError(f"{self.path}: is far too long to be a conversion's journal; choose another folder.")
            lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError as error:
            raise UserError(f"{self.path}: cannot be read ({reason(error)}); choose another folder.") from None
        head = _parsed(lines[0]) if lines else None
        if not isinstance(head, dict) or head.get("evprof_conversion") != VERSION:
            raise UserError(
                f"{self.path}: is no journal of a conversion by this version; choose another folder, or begin anew "
                "with --overwrite."
            )
        for line in lines[1:]:
            # Half a line, or one that somebody changed, is none: its task is carried out again.
            entry = JournalEntry.if_fitting(_parsed(line))
            if entry is not None:
                self.entries[entry.output] = entry


def _line(values: dict[str, Any]) -> str:
    return json.dumps(values, sort_keys=True) + "\n"


def _parsed(line: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
