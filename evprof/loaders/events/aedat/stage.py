"""A file whose content is replaced again and again, for libraries that read nothing but paths."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from typing import IO


class Stage:
    """In memory where the system has such files, else in its folder for temporary ones; made when first used."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._path = ""
        self._is_on_disk = False

    def put(self, content: bytes) -> str:
        """The path of a file with this content, until the next call. Raises OSError."""
        if self._file is None:
            self._file = self._made()
        # Written over and not anew: pages of memory the file has already cost nothing.
        self._file.seek(0)
        self._file.write(content)
        self._file.truncate()
        return self._path

    def close(self) -> None:
        """Removes the file; may be called twice."""
        if self._file is None:
            return
        self._file.close()
        self._file = None
        if self._is_on_disk:
            with suppress(OSError):
                os.unlink(self._path)

    def _made(self) -> IO[bytes]:
        create = getattr(os, "memfd_create", None)
        self._is_on_disk = create is None
        if create is None:
            handle, self._path = tempfile.mkstemp(prefix="evprof-")
        else:
            handle = create("evprof")
            self._path = f"/proc/self/fd/{handle}"
        return open(handle, "w+b", buffering=0)
