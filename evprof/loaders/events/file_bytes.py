"""Positioned reads from one file, counted; it knows no format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evprof.core.errors import UserError
from evprof.loaders.paths import raw_file, readable_file, unreadable


class FileBytes:
    """An open, non-empty file that is read at places. Every call may raise UserError."""

    def __init__(self, path: str | Path) -> None:
        found = readable_file(path)
        self.path = str(path)
        self.bytes_read = 0
        try:
            self._file = raw_file(found)
            self.size = self._file.seek(0, 2)
        except OSError as error:
            raise unreadable(path, error) from None

    def at(self, offset: int, count: int) -> bytes:
        """`count` bytes from `offset`; fewer only where the file ended when it was opened, none from outside of it."""
        count = min(count, self.size - offset)
        if count <= 0 or offset < 0:
            return b""
        try:
            self._file.seek(offset)
            got = self._file.read(count)
            while len(got) < count:
                more = self._file.read(count - len(got))
                if not more:
                    raise UserError(f"{self.path}: became shorter while it was read; open it again once it is written.")
                got += more
        except (OSError, ValueError, MemoryError) as error:
            raise unreadable(self.path, error) from None
        self.bytes_read += len(got)
        return got

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Inside, an error closes the file; without one it stays open."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """May be called twice."""
        self._file.close()
