"""Reads event recordings from `.npz`: named columns, one array of all four or of its parts, compressed or not.

What the archive says of its sizes is checked against sane bounds, and against each array's own header, before anything
is unpacked.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evprof.core.budget import MOST_BYTES, PACKED_RATIO, Budget
from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.columns import NAMES, events_from_array, events_from_mapping
from evprof.loaders.events.file_bytes import FileBytes
from evprof.loaders.events.file_head import ZIP_MAGIC
from evprof.loaders.events.npy import LONGEST_START, array_strips, check_length, pickle_budget, read_npy_header, shaped
from evprof.loaders.events.pickled import JoinedParts, read_pickled_columns
from evprof.loaders.events.recording import EventRecording, EventsInMemory
from evprof.loaders.events.tables import Strip, open_table
from evprof.loaders.paths import opened_file, readable_file, reason

_MAX_MEMBERS = 1_000
_CHUNK_BYTES = 1 << 20


def open_recording(path: str | Path) -> EventRecording:
    """A `.npz` recording: arrays that were stored uncompressed are read in windows, others whole. Raises UserError."""
    found = readable_file(path)
    name = str(path)
    with _sentences(name), opened_file(found) as file, zipfile.ZipFile(file) as archive:
        members = _wanted(archive, name)
        strips = _stored(found, members, name)
        if strips is None:
            return EventsInMemory(path, "npz", _read_whole(archive, members, name))
    return open_table(FileBytes(path), "npz", strips)


def _read_whole(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], name: str) -> EventArray:
    _check_sizes(members, name)
    if len(members) > 1 or next(iter(members)) in _SPELLINGS:
        return events_from_mapping({key: _read_array(archive, member, name) for key, member in members.items()}, name)
    key, member = next(iter(members.items()))
    return _read_single(archive, member, f"{name}[{key}]")


def _stored(path: Path, members: dict[str, zipfile.ZipInfo], name: str) -> dict[str, Strip] | None:
    """Where the arrays lie in the file itself; None when they must be unpacked, or are a pickle."""
    if any(member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1 for member in members.values()):
        return None
    strips: dict[str, Strip] = {}
    with closing(FileBytes(path)) as file:
        for key, member in members.items():
            begin = _content_offset(file, member)
            start = io.BytesIO(file.at(begin, min(LONGEST_START, member.file_size)))
            header = read_npy_header(start, name)
            if header.dtype is None and len(members) == 1:
                return None
            if header.dtype is None:
                raise UserError(
                    f"{name}: '{member.filename}' holds Python objects instead of numbers; save plain arrays."
                )
            offset, end = begin + start.tell(), begin + min(member.file_size, file.size - begin)
            check_length(header, end - offset, name)
            if len(members) == 1 and key.lower() not in _SPELLINGS:
                table = array_strips(header, offset, end, f"{name}[{key}]")
                return {part: _checked(strip, begin, end, member.CRC) for part, strip in table.items()}
            if len(header.shape) != 1:
                raise UserError(
                    f"{name}: column '{key}' has the shape {list(header.shape)}; one dimension is expected."
                )
            strips[key] = _checked(Strip(offset, header.shape[0], header.dtype), begin, end, member.CRC)
    return strips


def _checked(strip: Strip, begin: int, end: int, checksum: int) -> Strip:
    """With the archive's checksum, where it is that of this strip and the header before it and of nothing more."""
    return replace(strip, checked_from=begin, checksum=checksum) if strip.end == end else strip


def _content_offset(file: FileBytes, member: zipfile.ZipInfo) -> int:
    """Where a member's bytes begin: after a header of its own, whose length the directory does not tell."""
    header = file.at(member.header_offset, 30)
    if len(header) < 30 or not header.startswith(ZIP_MAGIC):
        raise zipfile.BadZipFile("a member is not where the directory says")
    begin = (
        member.header_offset + 30 + int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
    )
    if member.compress_size != member.file_size or begin + member.file_size > file.size:
        raise zipfile.BadZipFile("a member is longer than the file")
    return begin


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
