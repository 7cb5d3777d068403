"""Reads event recordings from `.npy`: EventGPT's pickled dict, structured arrays and N x 4 arrays.

Nothing a header says is believed before the file's size confirms it, and no pickle is ever handed to Python's own
unpickler (see `evprof.loaders.events.pickled`).
"""

from __future__ import annotations

import ast
import io
import math
import mmap
import re
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from evprof.core.budget import Budget
from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.blocks import BlockIndex, BlockRecording
from evprof.loaders.events.pickled import read_pickled_columns
from evprof.loaders.events.recording import EventRecording, EventsInMemory, FileBytes, RecordingInfo
from evprof.loaders.events.tables import (
    SECONDS,
    check_shape,
    checked_events,
    column_keys,
    column_order,
    events_from_mapping,
    exponent_of,
)
from evprof.loaders.paths import opened_file, unreadable

NPY_MAGIC = b"\x93NUMPY"
_LONGEST_HEADER = 16_384
LONGEST_START = 12 + _LONGEST_HEADER
"""Bytes that hold magic, version, length and header of every file that is read."""

_LEAST_ROWS = 1 << 14
_MOST_BLOCKS = 4096
"""First times that are read to find a window: 4096 reads take some milliseconds even in a file of 100 GB."""

_LATEST = 2**61
"""As in `EventArray`."""

_SURVEYED = 1 << 16
"""Events at either end of a recording that show its layout, and the unit of its times."""

_READ_WHOLE = 1 << 19
"""Shorter recordings are read at once, which takes some milliseconds."""

_NUMBER = re.compile(r"[<>=|][biuf][1248]\Z")
_PADDING = re.compile(r"\|V[0-9]{1,3}\Z")
_PYTHON2_LONG = re.compile(r"(?<=[0-9])L(?=[,)])")


@dataclass(frozen=True)
class NpyHeader:
    """What an array file says of itself; `dtype` None means a pickle follows. `nbytes` is 0 then."""

    dtype: np.dtype[Any] | None
    shape: tuple[int, ...]
    is_fortran: bool

    @property
    def nbytes(self) -> int:
        """Bytes of content that must follow the header."""
        return 0 if self.dtype is None else math.prod(self.shape) * self.dtype.itemsize


def open_recording(path: str | Path) -> EventRecording:
    """A `.npy` recording. Raises UserError.

    Plain arrays are read in windows. Pickled dicts are read whole, in at most about four times the file's memory.
    """
    file = FileBytes(path)
    with file.kept():
        start = io.BytesIO(file.at(0, LONGEST_START))
        header = read_npy_header(start, file.path)
        if header.dtype is None:
            with closing(file):
                return EventsInMemory(path, "npy", _read_pickle(path, start.tell()))
        table = TableRecording(file, header, start.tell())
    if table.count > _READ_WHOLE:
        return table
    with table:
        return EventsInMemory(path, "npy", table.read())


class TableRecording(BlockRecording):
    """Rows of named numbers, or of four columns, at known places of a file. Any run of events is read by itself."""

    def __init__(self, file: FileBytes, header: NpyHeader, offset: int) -> None:
        super().__init__(file)
        assert header.dtype is not None
        check_length(header, file.size - offset, file.path)
        check_shape(header.dtype, header.shape, file.path)
        self._dtype, self._offset = header.dtype, offset
        self._is_columns = header.is_fortran and header.dtype.names is None
        self.count = header.shape[0]
        self._rows = max(_LEAST_ROWS, math.ceil(self.count / _MOST_BLOCKS))
        self._keys, self._exponent = self._recognised()

    @cached_property
    def info(self) -> RecordingInfo:
        return RecordingInfo("npy", self.count, None, None, *self._limits_us)

    @cached_property
    def _index(self) -> BlockIndex:
        starts = range(0, self.count, self._rows)
        first_us = [self._time(start) for start in starts]
        counts = [min(self._rows, self.count - start) for start in starts]
        return BlockIndex.of_first_times(np.array(first_us, np.int64), np.array(counts, np.int64))

    @cached_property
    def _limits_us(self) -> tuple[int | None, int | None]:
        """If time runs backwards over long stretches, all of the file is read."""
        if self._index.is_bounded:
            return super()._limits_us
        ends = [(int(chunk.t_us.min()), int(chunk.t_us.max())) for chunk in self.chunks()]
        return min(low for low, _ in ends), max(high for _, high in ends)

    def _time(self, number: int) -> int:
        time = self._raw(number, number + 1)[self._keys["t"]][0]
        if not -_LATEST <= time <= _LATEST:
            raise UserError(f"{self.path}: event {number} has the time {time}, which no clock shows; it is damaged.")
        if self._exponent == SECONDS:
            return round(float(time) * 1e6)
        return int(time) if not self._exponent else int(time) // 1000

    def _decoded(self, start: int, stop: int) -> EventArray:
        raw = self._raw(start * self._rows, min(stop * self._rows, self.count))
        # Columns of rows are strided. Contiguous copies make what follows several times faster.
        columns = {name: np.ascontiguousarray(raw[key]) for name, key in self._keys.items()}
        return checked_events(columns, self.path, exponent=self._exponent)

    def _raw(self, start: int, stop: int) -> dict[str, npt.NDArray[Any]]:
        """The columns of these rows, by the file's names or by number."""
        size = self._dtype.itemsize
        if self._is_columns:
            starts = [self._offset + (column * self.count + start) * size for column in range(4)]
            return {str(column): self._items(place, stop - start) for column, place in enumerate(starts)}
        if self._dtype.names is None:
            table = self._items(self._offset + 4 * start * size, 4 * (stop - start)).reshape(-1, 4)
            return {str(column): table[:, column] for column in range(4)}
        rows = self._items(self._offset + start * size, stop - start)
        return {name: rows[name] for name in self._dtype.names if name}

    def _items(self, place: int, count: int) -> npt.NDArray[Any]:
        content = self._file.at(place, count * self._dtype.itemsize)
        if len(content) < count * self._dtype.itemsize:
            raise UserError(f"{self.path}: the file ends before its announced {self.count:,} events.")
        return np.frombuffer(content, self._dtype)

    def _recognised(self) -> tuple[dict[str, str], int]:
        """The key of each column, and the unit of the times, from both ends of the file."""
        ends = self._raw(0, min(self.count, _SURVEYED))
        if self.count > _SURVEYED:
            tail = self._raw(max(_SURVEYED, self.count - _SURVEYED), self.count)
            ends = {key: np.concatenate([column, tail[key]]) for key, column in ends.items()}
        if self._dtype.names is None:
            order = column_order(np.stack(list(ends.values()), axis=1), self.path)
            keys = {name: str(index) for index, name in enumerate(order)}
        else:
            keys = column_keys(ends, self.path)
        exponent = exponent_of(ends[keys["t"]])
        if exponent == SECONDS:
            checked_events({name: ends[key] for name, key in keys.items()}, self.path, exponent=exponent)
        return keys, exponent


def _read_pickle(path: str | Path, offset: int) -> EventArray:
    try:
        with opened_file(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            mapped.seek(offset)
            columns = read_pickled_columns(mapped, pickle_budget(str(path), mapped.size()))
    except OSError as error:
        raise unreadable(path, error) from None
    return events_from_mapping(columns, str(path))


def pickle_budget(name: str, size: int) -> Budget:
    """The memory for a pickle of `size` bytes: texts that stand for bytes become as many bytes, for each array."""
    return Budget(name, size, ratio=4, spare=1 << 20)


def read_npy_header(file: IO[bytes], name: str) -> NpyHeader:
    """Parses magic, version and header; leaves `file` at the first byte of content. Raises UserError."""
    start = file.read(8)
    if start[:6] != NPY_MAGIC:
        raise UserError(f"{name}: is not a .npy file (its first bytes are not numpy's); give an event recording.")
    if len(start) < 8 or start[6] not in (1, 2, 3):
        raise UserError(f"{name}: the .npy header is damaged or of an unknown version; copy or export the file again.")
    width = 2 if start[6] == 1 else 4
    length = int.from_bytes(file.read(width), "little")
    text = file.read(length) if 0 < length <= _LONGEST_HEADER else b""
    if not text or len(text) < length:
        raise UserError(f"{name}: the .npy header is damaged or cut short; copy or export the file again.")
    try:
        return _parse_header(text.decode("utf-8" if start[6] == 3 else "latin-1"))
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError):
        raise UserError(
            f"{name}: its .npy header does not describe numbers or a recording; export it again as x, y, t, p."
        ) from None


def _parse_header(text: str) -> NpyHeader:
    if "\\" in text:
        raise ValueError("no header needs an escape")
    values = ast.literal_eval(_PYTHON2_LONG.sub("", text).strip())
    if not isinstance(values, dict) or set(values) != {"descr", "fortran_order", "shape"}:
        raise ValueError("not the three keys of a header")
    shape, is_fortran = values["shape"], values["fortran_order"]
    if not isinstance(shape, tuple) or len(shape) > 4 or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError("not a shape")
    if type(is_fortran) is not bool:
        raise ValueError("not an order")
    return NpyHeader(None if values["descr"] == "|O" else _dtype(values["descr"]), shape, is_fortran)


def _dtype(descr: Any) -> np.dtype[Any]:
    """Plain numbers, or a flat list of named ones with numpy's padding between; anything else is a ValueError."""
    if isinstance(descr, str) and _NUMBER.match(descr):
        return np.dtype(descr)
    if not isinstance(descr, list) or not 4 <= len(descr) <= 64:
        raise ValueError("not numbers")
    names: list[str] = []
    formats: list[str] = []
    offsets: list[int] = []
    offset = 0
    for field in descr:
        field_name, field_format = field
        if not (isinstance(field_name, str) and isinstance(field_format, str)):
            raise ValueError("not a field")
        if _NUMBER.match(field_format):
            names.append(field_name)
            formats.append(field_format)
            offsets.append(offset)
            offset += np.dtype(field_format).itemsize
        elif _PADDING.match(field_format):
            offset += int(field_format[2:])
        else:
            raise ValueError("not a number")
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": offset})


def check_length(header: NpyHeader, available: int, name: str) -> None:
    """Raises UserError when fewer than the announced bytes are there, before anything is allocated for them."""
    if header.nbytes > available:
        raise UserError(
            f"{name}: the header announces {header.nbytes:,} bytes but {max(available, 0):,} follow; "
            "the file is cut short, copy it again."
        )


def shaped(content: npt.NDArray[Any], header: NpyHeader, name: str) -> npt.NDArray[Any]:
    """Flat content in the announced shape. Raises UserError when elements are missing."""
    if len(content) != math.prod(header.shape):
        raise UserError(f"{name}: the file ends before its announced {math.prod(header.shape):,} elements.")
    return content.reshape(header.shape, order="F" if header.is_fortran else "C")
