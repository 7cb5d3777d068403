"""Writes `.npy` recordings: EventGPT's pickled dict, or a structured array without a pickle.

The pickle is written opcode by opcode, so that memory stays bounded however long the recording is, and names numpy's
functions as every numpy from 1.x on knows them: EventGPT itself is pinned to 1.26.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np

from evprof.core.events import EventArray
from evprof.core.files.whole_file import whole_binary
from evprof.loaders.writers.columns import DTYPES, RECORD, Spool


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
