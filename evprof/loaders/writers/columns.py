"""Collects events column by column outside of memory, for formats that must say first how many there are."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
import numpy.typing as npt

from evprof.core.events import EventArray

DTYPES: dict[str, str] = {"x": "<u2", "y": "<u2", "t": "<i8", "p": "|u1"}
"""The columns of every file we write, in EventGPT's order and with its types, but for times: 64 bits, so that no
recording is too long for them."""

RECORD = np.dtype([("t", "<i8"), ("x", "<u2"), ("y", "<u2"), ("p", "|u1")])
"""One event of a structured array: 13 bytes."""

_IN_MEMORY_BYTES = 32 << 20
"""A column up to this size never becomes a file."""

_COPY_BYTES = 1 << 20


class Spool:
    """Files without a name in the folder that the result will lie in; they are gone with the process.

    `dtypes` names what is kept: columns apart (`DTYPES`), or whole events under one name (`RECORD`).
    """

    def __init__(self, folder: Path, *, records: bool = False) -> None:
        names = ("events",) if records else tuple(DTYPES)
        self.events = 0
        self._is_records = records
        self._stack = ExitStack()
        self._files: dict[str, IO[bytes]] = {}
        for name in names:
            file = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES, "w+b", dir=str(folder))  # noqa: SIM115 - closed below
            self._files[name] = self._stack.enter_context(file)

    def take(self, chunks: Iterable[EventArray]) -> None:
        """Keeps all of them. Raises OSError."""
        for chunk in chunks:
            self.events += len(chunk)
            for name, column in self._columns(chunk).items():
                self._files[name].write(column.data)

    def copy(self, name: str, stream: IO[bytes]) -> None:
        """Writes a column's bytes to `stream`. Raises OSError."""
        self._files[name].seek(0)
        shutil.copyfileobj(self._files[name], stream, _COPY_BYTES)

    def nbytes(self, name: str) -> int:
        """How many bytes that are."""
        return self.events * (RECORD if self._is_records else np.dtype(DTYPES[name])).itemsize

    def _columns(self, chunk: EventArray) -> dict[str, npt.NDArray[Any]]:
        columns = {"x": chunk.x, "y": chunk.y, "t": chunk.t_us, "p": chunk.p}
        if not self._is_records:
            return {name: np.ascontiguousarray(column, DTYPES[name]) for name, column in columns.items()}
        records = np.empty(len(chunk), RECORD)
        for name, column in columns.items():
            records[name] = column
        return {"events": records.view(np.uint8)}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
