"""Writes `.npy` recordings: EventGPT's pickled dict, or a structured array without a pickle.

The pickle names numpy's functions as every numpy from 1.x on knows them: EventGPT itself is pinned to 1.26.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.core.files.whole_file import whole_binary
from evprof.loaders.events.recording import MOST_EVENTS, joined

RECORD = np.dtype([("t", "<i8"), ("x", "<u2"), ("y", "<u2"), ("p", "|u1")])
"""One event of a structured array: 13 bytes."""

_NAMES_BYTES = 1024
"""The names in a pickle of columns stand before the content of the first column."""


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
    `structured`: one array with the fields t, x, y, p. Raises OSError, UserError for more events than memory holds, and
    whatever `chunks` raises.
    """
    columns = columns_of(path, chunks)
    with whole_binary(path) as stream:
        if layout == "structured":
            rows = np.empty(len(columns["t"]), RECORD)
            for name, column in columns.items():
                rows[name] = column
            np.lib.format.write_array(stream, rows, allow_pickle=False)
        else:
            np.lib.format.write_array_header_1_0(stream, {"descr": "|O", "fortran_order": False, "shape": ()})
            content = pickle.dumps(np.array(columns), protocol=3)
            stream.write(content[:_NAMES_BYTES].replace(b"cnumpy._core.", b"cnumpy.core."))
            stream.write(memoryview(content)[_NAMES_BYTES:])
    return len(columns["t"])


def columns_of(path: Path, chunks: Iterable[EventArray]) -> dict[str, npt.NDArray[Any]]:
    """All events as columns x, y, t, p in EventGPT's order. Raises UserError for more than MOST_EVENTS."""
    parts: list[EventArray] = []
    count = 0
    for chunk in chunks:
        parts.append(chunk)
        count += len(chunk)
        if count > MOST_EVENTS:
            raise UserError(
                f"{path}: would hold more than {MOST_EVENTS // 1_000_000} million events, which this format keeps in "
                "memory; write HDF5 or RAW, or a part."
            )
    events = joined(parts)
    columns = {"x": events.x, "y": events.y, "t": events.t_us, "p": events.p}
    # A pickle of an array that is mapped from a file would name numpy.memmap, which readers refuse.
    return {name: np.asarray(column) for name, column in columns.items()}


def write_npz(
    path: Path,
    chunks: Iterable[EventArray],
    *,
    width: int | None = None,
    height: int | None = None,
    compressed: bool = False,
) -> int:
    """Writes all events in their order; returns how many. The same events give the same bytes.

    x, y: uint16, t: int64 µs, p: uint8; the sensor's size has no place in this format. Raises OSError, UserError for
    more events than memory holds, and whatever `chunks` raises.
    """
    columns = columns_of(path, chunks)
    save = np.savez_compressed if compressed else np.savez
    with whole_binary(path) as stream:
        save(stream, x=columns["x"], y=columns["y"], t=columns["t"], p=columns["p"])
    return len(columns["t"])
