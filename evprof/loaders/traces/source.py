"""The bytes of a trace's file, plain or gzipped whatever its name, in pieces; a file cut short gives what is there."""

from __future__ import annotations

import zlib
from pathlib import Path
from types import TracebackType
from typing import Self

from evprof.core.budget import Budget
from evprof.loaders.paths import raw_file

RATIO = 50
"""Traces repeat themselves and shrink 10 to 30 times."""

_SPARE_BYTES = 16 << 20
_PACKED_PIECE = 256 << 10


class TraceBytes:
    """A trace's file, to be read once. `text_bytes` were made of it so far.

    `failure` says how the packing is damaged, "" while it is whole. Raises UserError for what unpacks without end.
    """

    def __init__(self, path: Path) -> None:
        self._file = raw_file(path)
        self.file_bytes = path.stat().st_size
        self.read_bytes = self.text_bytes = 0
        self.failure = ""
        self.is_packed = self._file.read(2) == b"\x1f\x8b"
        self._file.seek(0)
        self._budget = Budget(str(path), self.file_bytes, RATIO, _SPARE_BYTES)
        self._unpacked = zlib.decompressobj(wbits=31)
        self._held = b""
        self._is_over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    @property
    def taken_bytes(self) -> int:
        """How much of the file the text so far came from."""
        return self.read_bytes - len(self._held)

    def read(self, size: int) -> bytes:
        """Up to `size` bytes more of the text; b"" only at its end."""
        data = self._unpack(size) if self.is_packed else self._piece(size)
        self.text_bytes += len(data)
        return data

    def _piece(self, size: int) -> bytes:
        data = self._file.read(size)
        self.read_bytes += len(data)
        return data

    def _unpack(self, size: int) -> bytes:
        found: list[bytes] = []
        missing = size
        while missing and not self._is_over:
            if not self._held:
                self._held = self._piece(_PACKED_PIECE)
            taken = self._take(found, missing)
            missing -= taken
            if not taken and not self._held and self.read_bytes >= self.file_bytes:
                self._is_over = True
                self.failure = self.failure or ("" if self._unpacked.eof else "it ends too early")
        return b"".join(found)

    def _take(self, found: list[bytes], most: int) -> int:
        if self._unpacked.eof:
            if not self._held.startswith(b"\x1f\x8b"):
                self._is_over = True  # What follows the packed text is not ours.
                return 0
            self._unpacked = zlib.decompressobj(wbits=31)
        try:
            data = self._unpacked.decompress(self._held, most)
        except zlib.error as error:
            self._is_over = True
            self.failure = str(error)
            return 0
        self._held = self._unpacked.unused_data if self._unpacked.eof else self._unpacked.unconsumed_tail
        self._budget.take(len(data))
        found.append(data)
        return len(data)
