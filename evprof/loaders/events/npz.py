"""Reads event recordings from `.npz`: named columns, one array of all four or of its parts, compressed or not.

What the archive says of its sizes is checked against sane bounds, and against each array's own header, before anything
is unpacked.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evprof.core.budget import MOST_BYTES, PACKED_RATIO, Budget
from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.npy import check_length, pickle_budget, read_npy_header, shaped
from evprof.loaders.events.pickled import JoinedParts, read_pickled_columns
from evprof.loaders.events.recording import EventRecording, EventsInMemory
from evprof.loaders.events.tables import NAMES, events_from_array, events_from_mapping
from evprof.loaders.paths import opened_file, readable_file, reason

_MAX_MEMBERS = 1_000
_CHUNK_BYTES = 1 << 20


def open_recording(path: str | Path) -> EventRecording:
    name = str(path)
    with _sentences(name), opened_file(readable_file(path)) as file, zipfile.ZipFile(file) as archive:
        members = _wanted(archive, name)
        _check_sizes(members, name)
        key, member = next(iter(members.items()))
        if len(members) > 1 or key in _SPELLINGS:
            columns = {key: _read_array(archive, member, name) for key, member in members.items()}
            events = events_from_mapping(columns, name)
        else:
            events = _read_single(archive, member, f"{name}[{key}]")
        return EventsInMemory(path, "npz", events)


_TABLES = ("event_data", "event_bins")
"""What EventBench calls a whole recording, as one table or as a list of parts, where other arrays lie beside it."""

_SPELLINGS = frozenset(spelling for spellings in NAMES.values() for spelling in spellings)


def _wanted(archive: zipfile.ZipFile, name: str) -> dict[str, zipfile.ZipInfo]:
    """The members that are columns by name, or the one array that holds them all."""
    entries = archive.infolist()
    if len(entries) > _MAX_MEMBERS:
        raise UserError(f"{name}: holds {len(entries):,} members; an event recording has four arrays.")
    arrays = {entry.filename[:-4]: entry for entry in entries if entry.filename.lower().endswith(".npy")}
    columns = {key: entry for key, entry in arrays.items() if key.lower() in _SPELLINGS}
    if columns:
        return columns
    if len(arrays) == 1:
        return arrays
    tables = {key: entry for key, entry in arrays.items() if key.lower() in _TABLES}
    if len(tables) == 1:
        return tables
    listed = ", ".join(sorted(arrays)[:8]) or "no arrays"
    raise UserError(f"{name}: holds {listed}; an event recording has the arrays x, y, t and p.")


def _check_sizes(members: dict[str, zipfile.ZipInfo], name: str) -> None:
    unpacked = sum(entry.file_size for entry in members.values())
    packed = max(1, sum(entry.compress_size for entry in members.values()))
    Budget(name, packed, PACKED_RATIO, most=MOST_BYTES).check(unpacked)


def _read_single(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> EventArray:
    with archive.open(member) as file:
        if read_npy_header(file, name).dtype is not None:
            return events_from_array(_read_array(archive, member, name), name)
        content = file.read(member.file_size)
    columns = read_pickled_columns(io.BytesIO(content), pickle_budget(name, len(content)))
    events = events_from_mapping(columns, name)
    return replace(events, parts=columns.lengths) if isinstance(columns, JoinedParts) else events


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> npt.NDArray[Any]:
    with archive.open(member) as file:
        header = read_npy_header(file, name)
        if header.dtype is None:
            raise UserError(f"{name}: '{member.filename}' holds Python objects instead of numbers; save plain arrays.")
        check_length(header, member.file_size - file.tell(), name)
        buffer = bytearray(header.nbytes)
        done = 0
        while done < len(buffer):
            chunk = file.read(min(_CHUNK_BYTES, len(buffer) - done))
            if not chunk:
                raise UserError(f"{name}: '{member.filename}' ends early; the file is damaged, copy it again.")
            buffer[done : done + len(chunk)] = chunk
            done += len(chunk)
        return shaped(np.frombuffer(buffer, dtype=header.dtype), header, name)


@contextmanager
def _sentences(name: str) -> Iterator[None]:
    """Turns what zipfile and its decompressors say into one sentence about this file."""
    import lzma

    try:
        yield
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError, KeyError) as error:
        raise UserError(f"{name}: the .npz archive is damaged ({reason(error)}); copy or export it again.") from None
    except (NotImplementedError, RuntimeError, MemoryError, OverflowError) as error:
        raise UserError(f"{name}: the .npz archive cannot be unpacked ({reason(error)}); save it again.") from None
