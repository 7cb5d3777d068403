"""Writes `.npy` recordings: EventGPT's pickled dict, or a structured array without a pickle.

The pickle is written opcode by opcode, so that memory stays bounded however long the recording is, and names numpy's
functions as every numpy from 1.x on knows them: EventGPT itself is pinned to 1.26.
"""

from __future__ import annotations

import pickle
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
import numpy.typing as npt

from evprof.core.events import EventArray
from evprof.core.files.whole_file import whole_binary

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


def write_npy(
    path: Path,
    chunks: Iterable[EventArray],
    *,
    width: int | None = None,
    height: int | None = None,
    layout: str = "dict",
) -> int:
    """Writes all events in their order; returns how many. The sensor's size has no place in this format.

    `dict`: what `np.load(path, allow_pickle=True).item()` gives back as {x, y: uint16, t: int64 µs, p: uint8};
    `structured`: one array with the fields t, x, y, p. Raises OSError, and whatever `chunks` raises.
    """
    with Spool(path.parent, records=layout == "structured") as spool:
        spool.take(chunks)
        with whole_binary(path) as stream:
            if layout == "structured":
                _header(stream, RECORD.descr, (spool.events,))
                spool.copy("events", stream)
            else:
                _header(stream, "|O", ())
                _write_pickle(stream, spool)
        return spool.events


def write_column(stream: IO[bytes], spool: Spool, name: str) -> None:
    """One column as a whole `.npy` of its own, as `.npz` archives hold them."""
    _header(stream, DTYPES[name], (spool.events,))
    spool.copy(name, stream)


def _header(stream: IO[bytes], descr: Any, shape: tuple[int, ...]) -> None:
    np.lib.format.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": shape})


# The pickle of a 0-d array of objects, whose one object is a dict of four arrays, in protocol 4.

_RECONSTRUCT = b"cnumpy.core.multiarray\n_reconstruct\n" + b"cnumpy\nndarray\n" + b"K\x00\x85" + b"C\x01b" + b"\x87R"
"""_reconstruct(ndarray, (0,), b"b"): an empty array, which its state then fills."""


def _write_pickle(stream: IO[bytes], spool: Spool) -> None:
    stream.write(b"\x80\x04" + _RECONSTRUCT + b"(K\x01)" + _dtype("|O8") + b"\x89" + b"](" + b"}(")
    for name, dtype in DTYPES.items():
        stream.write(_text(name) + _RECONSTRUCT + b"(K\x01" + _number(spool.events) + b"\x85" + _dtype(dtype) + b"\x89")
        stream.write(b"\x8e" + spool.nbytes(name).to_bytes(8, "little"))
        spool.copy(name, stream)
        stream.write(b"tb")
    stream.write(b"u" + b"e" + b"tb" + b".")


def _dtype(descr: str) -> bytes:
    """dtype(kind and size, False, True) with its state: version 3, byte order, no fields, flags 63 for objects."""
    flags = 63 if descr.endswith("O8") else 0
    made = b"cnumpy\ndtype\n" + _text(descr[1:]) + b"\x89\x88\x87R"
    return made + b"(K\x03" + _text(descr[0]) + b"NNN" + _number(-1) * 2 + _number(flags) + b"tb"


def _text(value: str) -> bytes:
    content = value.encode("ascii")
    return b"\x8c" + len(content).to_bytes(1, "little") + content


def _number(value: int) -> bytes:
    """The opcode for an integer, without the two bytes that begin a pickle and the one that ends it."""
    return pickle.dumps(value, protocol=2)[2:-1]
