"""Event recordings in HDF5 (DSEC, M3ED and relatives): where the events of a file are, and windows of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.hdf5.stored import (
    StoredArray,
    StoredColumn,
    find,
    is_dataset,
    is_elsewhere,
    is_group,
    listing,
    open_file,
    printable,
    sentences,
    small_attribute,
)
from evprof.loaders.events.recording import (
    CHUNK_EVENTS,
    MOST_EVENTS,
    NO_EVENTS,
    EventRecording,
    RecordingInfo,
    joined,
    too_many,
)
from evprof.loaders.events.tables import NAMES, NANOSECONDS, SECONDS, column_order, exponent_of

DSEC, M3ED, OTHER = "dsec-h5", "m3ed-h5", "h5"

_PLACES = {
    "/prophesee/left": M3ED,
    "/prophesee/right": M3ED,
    "/events": DSEC,
    "/CD/events": OTHER,
    "/davis/left/events": OTHER,
    "/davis/right/events": OTHER,
    "/": OTHER,
}
"""Where events are in published files, in the order of the search: M3ED, DSEC, Prophesee, MVSEC, others."""

_SPELLINGS = {column: (*spellings, f"{column}s") for column, spellings in NAMES.items()}
_MVSEC_ORDER = ("x", "y", "t", "p")
_LARGEST_SENSOR = 16_384
_MOST_OFFSET_US = 2**60
_MOST_US = 2**61
_LONGEST_S = 86_400.0 * 365
_PIECE_EVENTS = 1 << 17
"""Events that are converted at a time: few enough to stay in the cache of the processor."""

Columns = dict[str, StoredColumn]


@dataclass(frozen=True)
class Hdf5Layout:
    """The columns x, y, t and p of a recording. `offset_us` is added to t. `size`: width and height, if stated."""

    format: str
    columns: Columns
    offset_us: int
    size: tuple[int, int] | None
    details: dict[str, str | int | float] = field(default_factory=dict)


def layout_of(file: Any, name: str) -> Hdf5Layout:
    """Finds the events. Raises UserError that lists the names in the file if there are none."""
    for place, form in _PLACES.items():
        home = find(file, place, name)
        columns = None if home is None else _columns(home, place, name)
        if columns is not None:
            return _layout(place, home, form, columns, name)
    raise UserError(
        f"{name}: holds {listing(file)}; event recordings in HDF5 have x, y, t and p as in DSEC (/events/x, …), "
        "M3ED (/prophesee/left/x, …), Prophesee's /CD/events, MVSEC's /davis/left/events or at the top."
    )


def _layout(place: str, home: Any, form: str, columns: Columns, name: str) -> Hdf5Layout:
    file = home.file
    lengths = {column: len(found.stored) for column, found in columns.items()}
    if len(set(lengths.values())) != 1:
        listed = ", ".join(f"{column} {length:,}" for column, length in lengths.items())
        raise UserError(
            f"{name}[{place}]: the columns have different lengths ({listed}); the file is damaged or unfinished."
        )
    parent = find(file, place.rsplit("/", 1)[0] or "/", name)
    time = columns["t"].stored
    details: dict[str, str | int | float] = {"place": place, "compression": time.compression}
    if time.chunk is not None:
        details["chunk"] = time.chunk[0]
    offset = _offset([home, parent] if is_group(home) else [parent], name)
    if offset is not None:
        details["t_offset_us"] = offset
    size = next(filter(None, (_stated_size(each) for each in (home, parent, file))), None)
    if form == M3ED:
        camera = details["camera"] = place.rsplit("/", 1)[1]
        if camera == "left" and is_group(find(file, "/prophesee/right", name)):
            details["other_cameras"] = "right"
        resolution = _numbers(find(file, f"{place}/calib/resolution", name), 2)
        size = size if resolution is None else _sensor(*resolution)
    return Hdf5Layout(form if is_group(home) else OTHER, columns, offset or 0, size, details)


def _columns(home: Any, place: str, name: str) -> Columns | None:
    """The columns of a group of lists, or of a table of rows; None for anything else."""
    if is_group(home):
        return _group_columns(home, place, name)
    if not is_dataset(home) or is_elsewhere(home):
        return None
    shape: tuple[int, ...] = home.shape or ()
    dtype = home.dtype
    if dtype.names is None:
        # Rows of four numbers, as in MVSEC and of v2e. They can also be an orientation.
        if len(shape) != 2 or shape[1] != 4 or dtype.kind not in "iuf" or place.rsplit("/", 1)[-1] != "events":
            return None
        rows = StoredArray(home, place, name)
        return {column: StoredColumn(rows, number) for number, column in enumerate(_row_order(rows))}
    keys = _keys({field_name.lower(): field_name for field_name in dtype.names}.get)
    if len(shape) != 1 or keys is None:
        return None
    rows = StoredArray(home, place, name)
    return {column: StoredColumn(rows, key) for column, key in keys.items()}


def _row_order(rows: StoredArray) -> tuple[str, ...]:
    """What the four columns of a table are, by both of its ends. Raises UserError where nothing decides it."""
    count = min(len(rows), rows.block_rows)
    if not count:
        return _MVSEC_ORDER
    ends = np.concatenate([rows.rows(0, count), rows.rows(max(count, len(rows) - count), len(rows))])
    try:
        return column_order(ends, rows.name)
    except UserError:
        if rows.dtype.kind == "f":
            return _MVSEC_ORDER
        raise


def _keys(key_of: Any) -> dict[str, str] | None:
    """What x, y, t and p are called, None without all four; `key_of` gives the key of a spelling, or None."""
    found = {column: next(filter(None, map(key_of, spellings)), None) for column, spellings in _SPELLINGS.items()}
    return None if None in found.values() else {column: str(key) for column, key in found.items()}


def _group_columns(group: Any, place: str, name: str) -> Columns | None:
    links = group.id.links
    keys = _keys(lambda spelling: spelling if links.exists(spelling.encode()) else None)
    if keys is None:
        return None
    columns: Columns = {}
    for column, key in keys.items():
        path = f"{place.rstrip('/')}/{key}"
        dataset = find(group, key, name)
        if dataset is None:
            raise UserError(f"{name}[{path}]: is a link that leads nowhere; export the recording again.")
        stored = StoredArray(dataset, path, name)
        if len(stored.shape) != 1 or stored.dtype.names is not None:
            raise UserError(
                f"{name}[{path}]: has the shape {list(stored.shape)} of {printable(str(stored.dtype), 60)}; a list of "
                "numbers, one for each event, is expected."
            )
        columns[column] = StoredColumn(stored)
    return columns


def _offset(homes: list[Any], name: str) -> int | None:
    for home in homes:
        dataset = find(home, "t_offset", name)
        if dataset is None:
            continue
        values = _numbers(dataset, 1)
        if values is None or not np.isfinite(values[0]) or abs(float(values[0])) > _MOST_OFFSET_US:
            raise UserError(f"{name}: t_offset is no time in microseconds; the file is damaged.")
        return int(values[0])
    return None


def _stated_size(home: Any) -> tuple[int, int] | None:
    """Width and height from attributes: `width` and `height`, or Prophesee's `geometry` ("1280x720")."""
    sides = [small_attribute(home, key) for key in ("width", "height")]
    if not all(isinstance(side, int) for side in sides):
        sides = [int(part) if part.isdecimal() else 0 for part in str(small_attribute(home, "geometry")).split("x")]
    return _sensor(*sides) if len(sides) == 2 else None


def _sensor(width: Any, height: Any) -> tuple[int, int] | None:
    return (int(width), int(height)) if all(0 < float(side) <= _LARGEST_SENSOR for side in (width, height)) else None


def _numbers(dataset: Any | None, count: int) -> npt.NDArray[Any] | None:
    """The numbers of a tiny dataset; None if it is anything else."""
    if dataset is None or not is_dataset(dataset) or dataset.shape is None or dataset.dtype.kind not in "iuf":
        return None
    if int(np.prod([int(length) for length in dataset.shape], dtype=object)) != count:
        return None
    stored = StoredArray(dataset, dataset.name or "", dataset.file.filename)
    values: npt.NDArray[Any] = dataset[()] if stored.pipeline is None else stored.rows(0, len(stored))
    return np.asarray(values).reshape(-1)


def open_recording(path: str | Path) -> EventRecording:
    """An HDF5 recording, no events of which are read yet. Raises UserError."""
    file = open_file(path)
    try:
        with sentences(str(path)):
            return Hdf5Recording(str(path), file, layout_of(file, str(path)))
    except BaseException:
        file.close()
        raise


class Hdf5Recording(EventRecording):
    """Events of one layout of an open file.

    A window reads the chunks that it touches: bisection finds its ends. If time runs backwards, recordings of up to a
    million events are searched whole; of longer ones a window holds what is within one block of its place.
    """

    def __init__(self, path: str, file: Any, layout: Hdf5Layout) -> None:
        self.path = path
        self._file = file
        self._layout = layout
        self._arrays = {id(column.stored): column.stored for column in layout.columns.values()}
        self._time = layout.columns["t"]
        self._count, self._rows = len(self._time.stored), self._time.stored.block_rows
        self._piece = max(self._rows, _PIECE_EVENTS // self._rows * self._rows)
        self._edges: dict[int, tuple[int, int]] = {}
        self._is_sorted = True
        self._exponent = self._unit()
        self._ends: tuple[int | None, int | None] | None = None

    @property
    def info(self) -> RecordingInfo:
        """Reads the ends of the time column on first use, and all of it up to a million events."""
        layout, ends = self._layout, self._limits_us()
        details = layout.details | _UNITS.get(self._exponent, {})
        disorder = "Time runs backwards in the recording; windows of a long one may lack events that are out of order."
        problems = () if self._is_sorted else (disorder,)
        width, height = layout.size or (None, None)
        return RecordingInfo(layout.format, self._count, width, height, *ends, details, problems)

    @property
    def bytes_read(self) -> int:
        return sum(stored.bytes_read for stored in self._arrays.values())

    def chunks(self) -> Iterator[EventArray]:
        """About a million events at a time, whole chunks of the file."""
        size = max(self._piece, CHUNK_EVENTS // self._piece * self._piece)
        for start in range(0, self._count, size):
            yield self._filled(start, min(start + size, self._count))

    def read(self) -> EventArray:
        """All events. Raises UserError when there are none, or more than MOST_EVENTS."""
        return self._some(self._filled(0, self._count))

    def read_time(self, start_us: int, stop_us: int) -> EventArray:
        if start_us >= stop_us or not self._count:
            return NO_EVENTS
        if self._count <= CHUNK_EVENTS:
            self._limits_us()  # which notices disorder anywhere
            if not self._is_sorted:
                return super().read_time(start_us, stop_us)
        with sentences(self.path):
            start, stop = (self._first_not_before(at_us - self._layout.offset_us) for at_us in (start_us, stop_us))
        if self._is_sorted:
            events = self._filled(start, stop)
            if self._is_sorted:
                return events
        low, high = min(start, stop) - self._rows, max(start, stop) + self._rows
        return self._filled(max(0, low), min(self._count, high)).slice_time(start_us, stop_us)

    def close(self) -> None:
        with sentences(self.path):
            self._file.close()

    def _limits_us(self) -> tuple[int | None, int | None]:
        if self._ends is None:
            with sentences(self.path):
                self._ends = self._survey()
        return self._ends

    def _survey(self) -> tuple[int | None, int | None]:
        offset = self._layout.offset_us
        if 0 < self._count <= CHUNK_EVENTS:
            t = self._times(0, self._count)
            return int(t.min()) + offset, int(t.max()) + offset
        if not self._count:
            return None, None
        first, last = self._edge(0)[0], self._edge((self._count - 1) // self._rows)[1]
        self._is_sorted = self._is_sorted and first <= last
        return (first + offset, last + offset) if self._is_sorted else (None, None)

    def _filled(self, start: int, stop: int) -> EventArray:
        if stop - start > MOST_EVENTS:
            raise too_many(self.path)
        # Pieces end where blocks of the file end, so that none is unpacked twice.
        edges = [start, *range((start // self._piece + 1) * self._piece, stop, self._piece), stop]
        pieces = [self._read(begin, end) for begin, end in pairwise(edges) if end > begin]
        if any(after.t_us[0] < before.t_us[-1] for before, after in pairwise(pieces)):
            self._is_sorted = False
        return joined(pieces)

    def _read(self, start: int, stop: int) -> EventArray:
        with sentences(self.path):
            rows = {key: stored.rows(start, stop) for key, stored in self._arrays.items()}
            x, y, t, p = (
                column.of(rows[id(column.stored)]) for column in map(self._layout.columns.get, "xytp") if column
            )
            t_us = self._microseconds(t) + self._layout.offset_us
            return EventArray.from_columns(x, y, t_us, p, source=self.path)

    def _times(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Times on the column's own clock, before `t_offset`."""
        return self._microseconds(self._time.of(self._time.stored.rows(start, stop)))

    def _microseconds(self, t: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """int64 µs whatever the file stores. Raises UserError for what is no time."""
        if t.dtype.kind == "f":
            if not np.isfinite(t).all():
                raise UserError(f"{self._time.stored.name}: times are not finite numbers; the file is damaged.")
            t = np.rint(t.astype(np.float64) * 1e6 if self._exponent == SECONDS else t)
        if len(t) and not -_MOST_US <= min(t.min(), t.max()) <= max(t.min(), t.max()) <= _MOST_US:
            raise UserError(f"{self._time.stored.name}: times run from {t.min()} to {t.max()} µs; the file is damaged.")
        times = t.astype(np.int64)
        if self._exponent == NANOSECONDS:
            times //= 1000
        if (times[1:] < times[:-1]).any():
            self._is_sorted = False
        return times

    def _first_not_before(self, t_us: int) -> int:
        """The number of the first event with time >= t_us in a sorted column; its length if there is none."""
        low, high = 0, -(-self._count // self._rows)
        while low < high:
            middle = (low + high) // 2
            if self._edge(middle)[1] < t_us:
                low = middle + 1
            else:
                high = middle
        start, stop = min(low * self._rows, self._count), min((low + 1) * self._rows, self._count)
        return start + int(np.searchsorted(self._times(start, stop), t_us)) if start < stop else start

    def _edge(self, block: int) -> tuple[int, int]:
        """The first and last time of a block. Compressed blocks are unpacked for it, and their order is checked."""
        if block not in self._edges:
            start = block * self._rows
            stop = min(start + self._rows, self._count)
            if self._time.stored.pipeline is None:
                self._edges[block] = int(self._times(start, start + 1)[0]), int(self._times(stop - 1, stop)[0])
            else:
                t = self._times(start, stop)
                self._edges[block] = int(t[0]), int(t[-1])
        return self._edges[block]

    def _unit(self) -> int:
        """The exponent of the time column by its first and last block, as `exponent_of` gives it."""
        some = min(self._count, self._rows)
        found = 0
        for start in (0, self._count - some):
            t = self._time.of(self._time.stored.rows(start, start + some))
            found = found or exponent_of(t)
            if exponent_of(t) == SECONDS:
                span = float(np.abs(t).max())
                if span > 1e13 or float(t.max()) - float(t.min()) > _LONGEST_S:
                    raise UserError(
                        f"{self._time.stored.name}: times are fractions up to {span:g}; seconds or whole microseconds "
                        "are expected."
                    )
        return found


_UNITS: dict[int, dict[str, str]] = {SECONDS: {"time_unit": "seconds"}, NANOSECONDS: {"time_unit": "nanoseconds"}}
