"""Recordings that are rows or columns of plain numbers at known places of a file: `.npy` arrays, stored `.npz` members.

Any run of events is read by itself; nothing else of the file is touched.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.events import MAX_COORDINATE, EventArray
from evprof.loaders.events.pieces import PiecedRecording, Pieces
from evprof.loaders.events.recording import (
    EventRecording,
    EventsInMemory,
    FileBytes,
    RecordingInfo,
)

NAMES: dict[str, tuple[str, ...]] = {
    "x": ("x",),
    "y": ("y",),
    "t": ("t", "ts", "t_us", "time", "timestamp", "timestamps"),
    "p": ("p", "pol", "polarity", "polarities"),
}
"""What recordings call their four columns."""

_LONGEST_SECONDS = 86_400.0


Columns = Mapping[str, npt.NDArray[Any]]

_ORDERS = {"t,x,y,p": ("t", "x", "y", "p"), "x,y,t,p": ("x", "y", "t", "p")}


def events_from_mapping(columns: Columns, source: str) -> EventArray:
    """Events from named columns. Raises UserError when one is missing; see `NAMES` for what they may be called."""
    keys = column_keys(columns, source)
    events = checked_events({name: columns[key] for name, key in keys.items()}, source)
    if len(events) == 0:
        raise UserError(f"{source}: the recording holds no events.")
    return events


def events_from_array(array: npt.NDArray[Any], source: str) -> EventArray:
    """Events from a structured array or an N x 4 array of (t, x, y, p) or (x, y, t, p); see `column_order`."""
    check_shape(array.dtype, array.shape, source)
    if array.dtype.names is not None:
        return events_from_mapping({name: array[name] for name in array.dtype.names if name}, source)
    order = column_order(array, source)
    return events_from_mapping({name: array[:, index] for index, name in enumerate(order)}, source)


def check_shape(dtype: np.dtype[Any], shape: tuple[int, ...], source: str) -> None:
    """Raises UserError unless such an array is one row of named fields, or has four columns, and at least one row."""
    if dtype.names is not None and len(shape) != 1:
        raise UserError(f"{source}: structured events of shape {list(shape)}; one dimension is expected.")
    if dtype.names is None and (len(shape) != 2 or shape[1] != 4):
        raise UserError(
            f"{source}: an array of {dtype} with shape {list(shape)} is no event recording; "
            "a dict or structured array of x, y, t, p, or an N x 4 array, is expected."
        )
    if shape[0] == 0:
        raise UserError(f"{source}: the recording holds no events.")


def column_keys(names: Iterable[str], source: str) -> dict[str, str]:
    """Which of `names` is x, y, t and p. Raises UserError when one is missing."""
    listed = list(names)
    lowered = {name.lower(): name for name in listed}
    found: dict[str, str] = {}
    for column, spellings in NAMES.items():
        key = next((spelling for spelling in spellings if spelling in lowered), None)
        if key is None:
            shown = ", ".join(sorted(listed)[:8]) or "nothing"
            raise UserError(
                f"{source}: no column '{column}' among those it holds ({shown}); an event recording has x, y, t and p."
            )
        found[column] = lowered[key]
    return found


def column_order(array: npt.NDArray[Any], source: str) -> tuple[str, ...]:
    """What the columns of an N x 4 array are.

    Of the two orders the one is taken in which coordinates fit a sensor and times do not run backwards; raises
    UserError where that does not decide it.
    """
    fitting = [
        order for order in _ORDERS.values() if _fits({name: array[:, index] for index, name in enumerate(order)})
    ]
    if len(fitting) != 1:
        raise UserError(
            f"{source}: cannot tell which of its 4 columns is time (t,x,y,p and x,y,t,p both "
            f"{'fit' if fitting else 'fail'}); save it as a structured array or .npz with the names x, y, t, p."
        )
    return fitting[0]


def _fits(columns: Columns) -> bool:
    for name in "xy":
        column = columns[name]
        if column.min() < 0 or column.max() > MAX_COORDINATE or (column != np.floor(column)).any():
            return False
    return bool((columns["t"][1:] >= columns["t"][:-1]).all())


def are_seconds(times: npt.NDArray[Any]) -> bool:
    """Whether times are fractions: those are seconds, the convention of text and float recordings."""
    if times.ndim != 1 or times.dtype.kind != "f" or len(times) == 0:
        return False
    return bool(np.isfinite(times).all() and (times != np.floor(times)).any())


def checked_events(columns: Columns, source: str, *, in_seconds: bool | None = None) -> EventArray:
    """Events of the columns x, y, t, p; `in_seconds` None means that the times themselves tell. Raises UserError."""
    times = columns["t"]
    if are_seconds(times) if in_seconds is None else in_seconds:
        times = _microseconds(times, source)
    return EventArray.from_columns(columns["x"], columns["y"], times, columns["p"], source=source)


def _microseconds(t_s: npt.NDArray[Any], source: str) -> npt.NDArray[np.int64]:
    if len(t_s) and not np.isfinite(t_s).all():
        raise UserError(f"{source}: column 't' holds values that are not finite numbers.")
    span_s = float(t_s.max() - t_s.min()) if len(t_s) else 0.0
    if span_s > _LONGEST_SECONDS or (len(t_s) and float(np.abs(t_s).max()) > 1e12):
        raise UserError(
            f"{source}: times are fractions and span {span_s:g}; seconds or whole microseconds are expected."
        )
    rounded: npt.NDArray[np.int64] = np.rint(t_s.astype(np.float64) * 1e6).astype(np.int64)
    return rounded


_LEAST_PIECE = 1 << 14
_MOST_PIECES = 4096
"""First times that are looked up to find a window: 4096 reads are some milliseconds even in a file of 100 GB."""

_BLOCK_EVENTS = 1 << 16
"""Events converted at once: they stay in the processor's cache."""

_LATEST = 2**61
"""As `EventArray` has it."""

_SURVEYED = 1 << 16
"""Events at either end of a recording that tell its layout, and the unit of its times."""

_READ_WHOLE = 1 << 19
"""Shorter recordings are read at once: some milliseconds, and then everything about them is known."""


@dataclass(frozen=True)
class Strip:
    """`count` equal items of a file from `offset` on: one column, or rows of all."""

    offset: int
    count: int
    dtype: np.dtype[Any]


def row_strip(offset: int, count: int, dtype: np.dtype[Any]) -> Strip:
    """A table of four columns in C order, or of named fields."""
    return Strip(offset, count, dtype if dtype.names is not None else np.dtype((dtype, (4,))))


def column_strips(offset: int, count: int, dtype: np.dtype[Any]) -> dict[str, Strip]:
    """A table of four columns in Fortran order, by number."""
    return {str(index): Strip(offset + index * count * dtype.itemsize, count, dtype) for index in range(4)}


def open_table(file: FileBytes, format_name: str, strips: Mapping[str, Strip]) -> EventRecording:
    """A recording of these strips, read whole at once when it is short. See `TableRecording`.

    Raises UserError also when they differ in length or are empty; then the file is closed.
    """
    counts = {key: strip.count for key, strip in strips.items()}
    with file.kept():
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{key} {count}" for key, count in counts.items())
            raise UserError(f"{file.path}: the columns have different lengths ({listed}); the file is damaged.")
        if not all(counts.values()):
            raise UserError(f"{file.path}: the recording holds no events.")
        table = TableRecording(file, format_name, strips)
    if table.count > _READ_WHOLE:
        return table
    with table:
        return EventsInMemory(file.path, format_name, table.read())


class TableRecording(PiecedRecording):
    """An open recording of one or several strips, which have the same count above zero and lie inside the file.

    Strips are columns by name, by number ("0"…"3"), or one strip of rows. Raises UserError when x, y, t and p are not
    among them, or cannot be told apart. Closes the file when it is closed.
    """

    def __init__(self, file: FileBytes, format_name: str, strips: Mapping[str, Strip]) -> None:
        super().__init__(file)
        self._format = format_name
        self._strips = dict(strips)
        self.count = next(iter(self._strips.values())).count
        self._piece = max(_LEAST_PIECE, math.ceil(self.count / _MOST_PIECES))
        self._keys, self._in_seconds = self._recognised()

    @cached_property
    def info(self) -> RecordingInfo:
        """How large the sensor is only reading it all would tell."""
        return RecordingInfo(self._format, self.count, None, None, *self._limits_us())

    def chunks(self) -> Iterator[EventArray]:
        for start in range(0, self.count, _BLOCK_EVENTS):
            yield self._events(start, min(start + _BLOCK_EVENTS, self.count))

    @cached_property
    def _pieces(self) -> Pieces:
        starts = range(0, self.count, self._piece)
        first_us = [self._time(start) for start in starts]
        counts = [min(self._piece, self.count - start) for start in starts]
        return Pieces(np.array(first_us, dtype=np.int64), np.array(counts, dtype=np.int64))

    def _time(self, number: int) -> int:
        key = self._keys["t"]
        strips = {key: self._strips[key]} if key in self._strips else self._strips
        time = self._raw(number, number + 1, strips=strips)[key][0]
        if not -_LATEST <= time <= _LATEST:
            raise UserError(f"{self.path}: event {number} has the time {time}, which no clock shows; it is damaged.")
        return round(float(time) * 1e6) if self._in_seconds else int(time)

    def _decoded(self, start: int, stop: int) -> EventArray:
        return self._events(start * self._piece, min(stop * self._piece, self.count))

    def _limits_us(self) -> tuple[int | None, int | None]:
        """Where time runs backwards over long stretches, only all the times tell: the file is read through."""
        if self._pieces.is_sorted:
            return super()._limits_us()
        ends = [(int(chunk.t_us.min()), int(chunk.t_us.max())) for chunk in self.chunks()]
        return min(low for low, _ in ends), max(high for _, high in ends)

    def _events(self, start: int, stop: int) -> EventArray:
        raw = self._raw(start, stop)
        # Columns of rows are strided: in a line of their own, what follows is several times faster.
        columns = {name: np.ascontiguousarray(raw[key]) for name, key in self._keys.items()}
        return checked_events(columns, self.path, in_seconds=self._in_seconds)

    def _raw(self, start: int, stop: int, strips: Mapping[str, Strip] | None = None) -> Columns:
        """The columns of all strips, or of these, as the file has them, by the file's names or by number."""
        found: dict[str, npt.NDArray[Any]] = {}
        for key, strip in (strips or self._strips).items():
            size = strip.dtype.itemsize
            content = self._file.at(strip.offset + start * size, (stop - start) * size)
            if len(content) < (stop - start) * size:
                raise UserError(f"{self.path}: the file ends before its announced {self.count:,} events.")
            items = np.frombuffer(content, dtype=strip.dtype)
            if strip.dtype.names is not None:
                found |= {name: items[name] for name in strip.dtype.names if name}
            elif items.ndim == 2:
                found |= {str(index): items[:, index] for index in range(4)}
            else:
                found[key] = items
        return found

    def _recognised(self) -> tuple[dict[str, str], bool]:
        """Which column is which, and whether times are fractions of seconds: told by both ends of the file."""
        ends = self._raw(0, min(self.count, _SURVEYED))
        if self.count > _SURVEYED:
            tail = self._raw(max(_SURVEYED, self.count - _SURVEYED), self.count)
            ends = {key: np.concatenate([column, tail[key]]) for key, column in ends.items()}
        if set(ends) == {"0", "1", "2", "3"}:
            order = column_order(np.stack([ends[str(index)] for index in range(4)], axis=1), self.path)
            keys = {name: str(index) for index, name in enumerate(order)}
        else:
            keys = column_keys(ends, self.path)
        in_seconds = are_seconds(ends[keys["t"]])
        if in_seconds:
            checked_events({name: ends[key] for name, key in keys.items()}, self.path, in_seconds=True)
        return keys, in_seconds
