"""What a conversion has finished, kept beside its results so that it goes on after a kill.

One line per finished file, written only after the file is in its place. A line counts only while the file it names has
the bytes it had, and the task still has the key it had.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from evprof.core.closing import Closing
from evprof.core.files.whole_file import whole_file
from evprof.core.plain import Plain
from evprof.loaders.json_lines import json_line, read_lines
from evprof.run.conversion.task import Written, size_of

NAME = "conversion.jsonl"
VERSION = 1

_MARK = "evprof_conversion"


@dataclass(frozen=True)
class JournalEntry(Plain):
    """One finished task: its output below the folder, its key, and what was written."""

    output: str
    key: str
    written: Written


class Journal(Closing):
    """The journal of one folder, open for going on. A context manager."""

    NAME = NAME

    def __init__(self, folder: Path) -> None:
        """Reads what is there. Raises UserError when that is no journal."""
        self.folder = folder
        self.path = folder / NAME
        self.entries: dict[str, JournalEntry] = {}
        self._file: IO[str] | None = None
        if self.path.exists():
            way = "choose another folder"
            for values in read_lines(self.path, _MARK, VERSION, "conversion", way)[1]:
                # Half a line, or one that somebody changed, is none: its task is carried out again.
                if (entry := JournalEntry.if_fitting(values)) is not None:
                    self.entries[entry.output] = entry

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
            self._file.write(json_line(entry.to_json()))
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
            stream.write(json_line({_MARK: VERSION}))
            for output in (*first, *others):
                stream.write(json_line(self.entries[output].to_json()))

    def close(self) -> None:
        """Lets go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
