"""A file for HDF5 to write into that never tells it of a failure, and remembers the first one for us.

HDF5 that cannot write what it has buffered can no longer close the file either, complains on standard error, and
crashes the process at its end. So a full disk is kept from it, and the file thrown away.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any


class PatientFile(io.RawIOBase):
    """Reads and writes `path` until something fails; from then on what is written is gone. See `check`."""

    def __init__(self, path: Path) -> None:
        """Makes the file anew. Raises OSError."""
        super().__init__()
        self.error: OSError | None = None
        self._file = path.open("w+b", buffering=0)
        self._place = 0

    def check(self) -> None:
        """Raises the first OSError there was."""
        if self.error is not None:
            raise self.error

    def write(self, content: Any) -> int:
        """Always all of it."""
        view = memoryview(content).cast("B")
        done = 0
        while done < len(view) and self.error is None:
            try:
                self._file.seek(self._place + done)
                done += self._file.write(view[done:]) or 0
            except OSError as error:
                self.error = error
        self._place += len(view)
        return len(view)

    def readinto(self, buffer: Any) -> int:
        """Always all of it: zeros where nothing is."""
        view = memoryview(buffer).cast("B")
        view[:] = bytes(len(view))
        done = 0
        try:
            self._file.seek(self._place)
            while done < len(view):
                count = self._file.readinto(view[done:]) or 0
                if not count:
                    break
                done += count
        except OSError as error:
            self.error = self.error or error
        self._place += len(view)
        return len(view)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """As files do."""
        if whence == io.SEEK_END:
            offset += self._file.seek(0, io.SEEK_END)
        elif whence == io.SEEK_CUR:
            offset += self._place
        self._place = offset
        return offset

    def tell(self) -> int:
        """The place of the next byte."""
        return self._place

    def truncate(self, size: int | None = None) -> int:
        """As files do."""
        wanted = self._place if size is None else size
        try:
            if self.error is None:
                self._file.truncate(wanted)
        except OSError as error:
            self.error = error
        return wanted

    def seekable(self) -> bool:
        """Yes."""
        return True

    def readable(self) -> bool:
        """Yes."""
        return True

    def writable(self) -> bool:
        """Yes."""
        return True

    def close(self) -> None:
        """Lets go of the file."""
        if not self.closed:
            self._file.close()
        super().close()
