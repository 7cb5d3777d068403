"""A file of /proc/self, kept open: opening one takes several times as long as reading it, and lets other threads in."""

from __future__ import annotations

import os


class ProcFile:
    """Text that the system writes anew for each reading; an OSError where there is no such file."""

    def __init__(self, name: str, flags: int = os.O_RDONLY) -> None:
        self._path = f"/proc/self/{name}"
        self._flags = flags
        # By process: a descriptor stays that of the process which opened it.
        self._opened: dict[int, int] = {}

    def read(self, size: int = 4096) -> bytes:
        """The first `size` bytes."""
        return os.pread(self._descriptor(), size, 0)

    def write(self, text: bytes) -> None:
        """Puts `text` there."""
        os.pwrite(self._descriptor(), text, 0)

    def _descriptor(self) -> int:
        process = os.getpid()
        found = self._opened.get(process)
        if found is None:
            found = self._opened[process] = os.open(self._path, self._flags | getattr(os, "O_CLOEXEC", 0))
        return found
