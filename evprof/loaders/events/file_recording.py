"""Recordings of one open file, whatever its format."""

from __future__ import annotations

from pathlib import Path

from evprof.loaders.events.file_bytes import FileBytes
from evprof.loaders.events.recording import EventRecording


class FileRecording(EventRecording):
    """A recording that reads one file itself. Raises UserError where the file's beginning is not as it should be."""

    def __init__(self, file: str | Path | FileBytes) -> None:
        """Takes over a file that is open already."""
        self._file = file if isinstance(file, FileBytes) else FileBytes(file)
        self.path = self._file.path
        with self._file.kept():
            self._begin()

    def _begin(self) -> None:
        """Looks at the file's beginning."""

    @property
    def bytes_read(self) -> int:
        """See `EventRecording`."""
        return self._file.bytes_read

    def close(self) -> None:
        """See `EventRecording`."""
        self._file.close()
