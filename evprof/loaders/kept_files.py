"""A folder of files kept by key within a bound, for caches: the one used longest ago goes first.

Several programs may use a folder at once: files appear whole or not at all, and one that vanishes counts as missing. It
knows nothing of what the files hold.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from io import BufferedReader
from pathlib import Path

Part = bytes | bytearray | memoryview

_ABANDONED_NS = 3600 * 10**9
"""Nobody writes one file for an hour."""


class KeptFiles:
    """The files of one `suffix` in `folder`, which is made when the first is put there."""

    def __init__(self, folder: Path, suffix: str, limit_bytes: int) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        self._suffix = suffix

    def open(self, key: str) -> BufferedReader | None:
        """The file of a key, to be read and closed, and counted as used now; None when there is none."""
        path = self._path(key)
        try:
            file = path.open("rb")
        except OSError:
            return None
        # A folder that cannot be written to still serves what it holds.
        with suppress(OSError):
            os.utime(path)
        return file

    def put(self, key: str, parts: Iterable[Part]) -> None:
        """Writes a file of the parts one after the other, and removes the oldest past the bound.

        Raises OSError when the disk refuses; what is larger than the bound is not kept.
        """
        held = [memoryview(part).cast("B") for part in parts]
        if sum(part.nbytes for part in held) > self.limit_bytes:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self.folder, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                for part in held:
                    file.write(part)
            os.replace(name, self._path(key))
        except OSError:
            _remove(Path(name))
            raise
        self._shrink()

    def remove(self, key: str) -> None:
        """Forgets a key, for example because its file is damaged."""
        _remove(self._path(key))

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{self._suffix}"

    def _shrink(self) -> None:
        files = self._files(f"*{self._suffix}")
        surplus = sum(size for _, size, _ in files) - self.limit_bytes
        for _, size, path in files:
            if surplus <= 0:
                break
            _remove(path)
            surplus -= size
        # What a program left that was ended while it wrote.
        abandoned_ns = time.time_ns() - _ABANDONED_NS
        for changed_ns, _, path in self._files("*.part"):
            if changed_ns < abandoned_ns:
                _remove(path)

    def _files(self, pattern: str) -> list[tuple[int, int, Path]]:
        """Time of last use in ns, bytes and path of the files there, the oldest first."""
        found: list[tuple[int, int, Path]] = []
        for path in self.folder.glob(pattern):
            # Another program may have removed it meanwhile.
            with suppress(OSError):
                stat = path.stat()
                found.append((stat.st_mtime_ns, stat.st_size, path))
        return sorted(found)


def _remove(path: Path) -> None:
    """Removes a file; one that another program holds open (on Windows) stays for the next time."""
    with suppress(OSError):
        path.unlink()
