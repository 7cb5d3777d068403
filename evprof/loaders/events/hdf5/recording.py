"""Event recordings in HDF5 (DSEC, M3ED and relatives): what they hold, and windows of them by time and by count."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.hdf5.layouts import Hdf5Layout, layout_of
from evprof.loaders.events.hdf5.stored import StoredColumn, open_file, sentences
from evprof.loaders.events.recording import (
    CHUNK_EVENTS,
    MOST_EVENTS,
    NO_EVENTS,
    EventRecording,
    RecordingInfo,
    joined,
    too_many,
)

_MOST_US = 2**61
_LONGEST_S = 86_400.0 * 365


class TimeColumn:
    """Event times on the column's own clock, before `t_offset`; int64 µs whatever the file keeps.

    `problems` collects what is found on the way.
    """

    def __init__(self, column: StoredColumn) -> None:
        self._column = column
        self._stored = column.stored
        self._edges: dict[int, tuple[int, int]] = {}
        self.is_sorted = True
        self.problems: list[str] = []
        self.in_seconds = self._counts_seconds()

    def __len__(self) -> int:
        return len(self._stored)

    def microseconds(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Times of rows of the array, int64 µs. Raises UserError for what is no time."""
        t = self._column.of(rows)
        if t.dtype.kind == "f":
            if not np.isfinite(t).all():
                raise UserError(f"{self._stored.name}: times are not finite numbers; the file is damaged.")
            t = t.astype(np.float64) * 1e6 if self.in_seconds else t
            t = np.rint(t)
        if len(t) and not -_MOST_US <= min(t.min(), t.max()) <= max(t.min(), t.max()) <= _MOST_US:
            raise UserError(f"{self._stored.name}: times run from {t.min()} to {t.max()} µs; the file is damaged.")
        return t.astype(np.int64)

    def between(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        return self.microseconds(self._stored.rows(start, stop))

    def ends(self) -> tuple[int, int] | None:
        """The first and the last event's time; None without events."""
        if not len(self):
            return None
        last = len(self) - 1
        return self._edge(0)[0], self._edge(last // self._stored.block_rows)[1]

    def first_not_before(self, t_us: int) -> int:
        """The number of the first event with time >= t_us, as a sorted column has it; its length if there is none."""
        rows = self._stored.block_rows
        low, high = 0, -(-len(self) // rows)
        while low < high:
            middle = (low + high) // 2
            if self._edge(middle)[1] < t_us:
                low = middle + 1
            else:
                high = middle
        start, stop = min(low * rows, len(self)), min((low + 1) * rows, len(self))
        return start + int(np.searchsorted(self.between(start, stop), t_us, side="left")) if start < stop else start

    def note_disorder(self) -> None:
        """Called by whoever sees time running backwards."""
        if self.is_sorted:
            self.is_sorted = False
            self.problems.append(
                "Time runs backwards in the recording; windows of a long one may lack events that are out of order."
            )

    def _edge(self, block: int) -> tuple[int, int]:
        """The first and last time of a block; where that unpacks it, its order is looked at too."""
        known = self._edges.get(block)
        if known is None:
            start = block * self._stored.block_rows
            stop = min(start + self._stored.block_rows, len(self))
            if self._stored.in_blocks:
                t = self.between(start, stop)
                if (t[1:] < t[:-1]).any():
                    self.note_disorder()
                known = int(t[0]), int(t[-1])
            else:
                known = int(self.between(start, start + 1)[0]), int(self.between(stop - 1, stop)[0])
            self._edges[block] = known
        return known

    def _counts_seconds(self) -> bool:
        """Fractions are seconds, the convention of float recordings; whole numbers are microseconds."""
        if self._column.dtype.kind != "f" or not len(self):
            return False
        some = min(len(self), self._stored.block_rows)
        for start in (0, len(self) - some):
            t = self._column.of(self._stored.rows(start, start + some))
            if np.isfinite(t).all() and (t != np.floor(t)).any():
                span = float(np.abs(t).max())
                if span > 1e13 or float(t.max()) - float(t.min()) > _LONGEST_S:
                    raise UserError(
                        f"{self._stored.name}: times are fractions up to {span:g}; seconds or whole microseconds are "
                        "expected."
                    )
                return True
        return False


_PIECE_EVENTS = 1 << 17
"""Events that are cast and checked at a time: few enough to stay in a processor's cache, twice as fast as a million."""

_SCANNED_EVENTS = 8 * CHUNK_EVENTS
"""Recordings up to this long are looked through whole for a window once their time is known to run backwards."""


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

    A window costs the chunks it touches: bisection finds its ends. Where time
    runs backwards, recordings up to 8 million events are searched whole; of longer ones a window holds what lies
    within one block of the place its time would have if they were in order.
    """

    def __init__(self, path: str, file: Any, layout: Hdf5Layout) -> None:
        self.path = path
        self._file = file
        self._layout = layout
        self._arrays = {id(column.stored): column.stored for column in layout.columns.values()}
        self._times = TimeColumn(layout.columns["t"])
        block = layout.columns["t"].stored.block_rows
        self._piece = max(block, _PIECE_EVENTS // block * block)
        self._chunk = max(self._piece, CHUNK_EVENTS // self._piece * self._piece)
        self._ends: tuple[int | None, int | None] | None = None

    @property
    def info(self) -> RecordingInfo:
        """Reads the time column's ends on first use, and all of it up to a million events."""
        layout = self._layout
        first, last = self._surveyed()
        details = dict(layout.details)
        if self._times.in_seconds:
            details["time_unit"] = "seconds"
        info = RecordingInfo(layout.format, len(self._times), layout.width, layout.height, first, last, details)
        unwritten = max(stored.unwritten_rows for stored in self._arrays.values())
        told = [f"{unwritten:,} events were never written to the file and read as zeros."] if unwritten else []
        return replace(info, problems=(*self._times.problems, *told))

    @property
    def bytes_read(self) -> int:
        return sum(stored.bytes_read for stored in self._arrays.values())

    def chunks(self) -> Iterator[EventArray]:
        """About a million events at a time, whole chunks of the file."""
        last: int | None = None
        for start in range(0, len(self._times), self._chunk):
            events = self._filled(start, min(start + self._chunk, len(self._times)))
            if last is not None and events.t_us[0] < last:
                self._times.note_disorder()
            last = int(events.t_us[-1])
            yield events

    def read(self) -> EventArray:
        """All events. Raises UserError when there are none, or more than MOST_EVENTS."""
        if not len(self._times):
            return super().read()
        return self._filled(0, len(self._times))

    def read_time(self, start_us: int, stop_us: int) -> EventArray:
        """Events with start_us <= t < stop_us on the recording's own clock, in file order."""
        if len(self._times) <= CHUNK_EVENTS:
            self._surveyed()  # which sees disorder anywhere, for little
        offset = self._layout.offset_us
        with sentences(self.path):
            start = self._times.first_not_before(start_us - offset)
            stop = self._times.first_not_before(stop_us - offset)
        if start_us >= stop_us:
            return NO_EVENTS
        if self._times.is_sorted:
            events = self._filled(start, stop)
            if self._times.is_sorted:
                return events
        if len(self._times) <= _SCANNED_EVENTS:
            return super().read_time(start_us, stop_us)
        block = self._layout.columns["t"].stored.block_rows
        low, high = max(0, min(start, stop) - block), min(len(self._times), max(start, stop) + block)
        return self._filled(low, high).slice_time(start_us, stop_us)

    def close(self) -> None:
        with sentences(self.path):
            self._file.close()

    def _surveyed(self) -> tuple[int | None, int | None]:
        """Earliest and latest time on the recording's clock, as far as they are known; found once."""
        if self._ends is None:
            with sentences(self.path):
                self._ends = self._survey()
        return self._ends

    def _survey(self) -> tuple[int | None, int | None]:
        times, offset = self._times, self._layout.offset_us
        if 0 < len(times) <= CHUNK_EVENTS:
            t = times.between(0, len(times))
            if (t[1:] < t[:-1]).any():
                times.note_disorder()
            return int(t.min()) + offset, int(t.max()) + offset
        ends = times.ends()
        if ends is None:
            return None, None
        if ends[1] < ends[0]:
            times.note_disorder()
        return (ends[0] + offset, ends[1] + offset) if times.is_sorted else (None, None)

    def _filled(self, start: int, stop: int) -> EventArray:
        count = stop - start
        if count > MOST_EVENTS:
            raise too_many(self.path)
        # Pieces end where blocks of the file do, so that none is unpacked twice.
        edges = [start, *range((start // self._piece + 1) * self._piece, stop, self._piece), stop]
        pieces = [self._read(begin, end) for begin, end in pairwise(edges) if end > begin]
        if any(after.t_us[0] < before.t_us[-1] for before, after in pairwise(pieces)):
            self._times.note_disorder()
        return joined(pieces)

    def _read(self, start: int, stop: int) -> EventArray:
        """Events start…stop-1, of which there are some."""
        with sentences(self.path):
            rows = {key: stored.rows(start, stop) for key, stored in self._arrays.items()}
            columns = self._layout.columns
            x, y, p = (columns[name].of(rows[id(columns[name].stored)]) for name in "xyp")
            t_us = self._times.microseconds(rows[id(columns["t"].stored)])
            if self._layout.offset_us:
                t_us += self._layout.offset_us
            events = EventArray.from_columns(x, y, t_us, p, source=self.path)
        if not events.is_sorted:
            self._times.note_disorder()
        return events
