"""What every event recording can be asked once it is open, whatever its format; it knows no format itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from evprof.core.budget import RATIO, Budget
from evprof.core.errors import UserError
from evprof.core.events import MAX_COORDINATE, EventArray
from evprof.core.protocols import Closing
from evprof.loaders.paths import raw_file, readable_file, unreadable

HEAD_BYTES = 4096
"""Bytes from the start of a file by which its format is recognized."""

MOST_EVENTS = 200_000_000
"""Most events that one call returns: 2.6 GB. Longer recordings are read in windows."""

CHUNK_EVENTS = 1 << 20
"""Events of a chunk, about, where a format has no measure of its own."""

NO_EVENTS = EventArray(np.empty(0, np.uint16), np.empty(0, np.uint16), np.empty(0, np.int64), np.empty(0, np.uint8))


@dataclass(frozen=True)
class RecordingInfo:
    """What a recording says of itself, without all of it being read; None is what only reading it all would tell.

    `format` is the name of `evprof inspect` (`dsec-h5`, `evt3`, …). `width` and `height` are the sensor's, `t_min_us`
    and `t_max_us` lie on the recording's own clock. `details` are further facts for people (sensor, compression);
    `problems` are sentences.
    """

    format: str
    events: int | None = None
    width: int | None = None
    height: int | None = None
    t_min_us: int | None = None
    t_max_us: int | None = None
    details: dict[str, str | int | float] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


class EventRecording(Closing, ABC):
    """An open event recording, a context manager. Not for two threads at once. Every call may raise UserError.

    Formats override what they can do better than reading from the start.
    """

    path: str

    @property
    @abstractmethod
    def info(self) -> RecordingInfo:
        """What is known without reading it all."""

    @property
    @abstractmethod
    def bytes_read(self) -> int:
        """Bytes of the file that were asked for so far, header and index included."""

    @abstractmethod
    def chunks(self) -> Iterator[EventArray]:
        """All events in file order, in pieces of bounded size; each call starts anew. No piece is empty."""

    @abstractmethod
    def close(self) -> None:
        """Lets go of the file; may be called twice."""

    def read(self) -> EventArray:
        """All events. Raises UserError when there are none, or more than MOST_EVENTS."""
        return self._some(joined(self._bounded(self.chunks())))

    def read_time(self, start_us: int, stop_us: int) -> EventArray:
        """Events with start_us <= t < stop_us on the recording's own clock, in file order; there may be none.

        This way of it looks at every chunk, because time may run backwards in a file.
        """
        return joined(self._bounded(chunk.slice_time(start_us, stop_us) for chunk in self.chunks()))

    def origin_us(self) -> int:
        """The earliest time, which samples count from; without an index that tells it, the first event's."""
        if self.info.t_min_us is not None:
            return self.info.t_min_us
        for chunk in self.chunks():
            return int(chunk.t_us.min())
        raise UserError(f"{self.path}: the recording holds no events.")

    def _some(self, events: EventArray) -> EventArray:
        if len(events) == 0:
            raise UserError(f"{self.path}: the recording holds no events.")
        return events

    def _bounded(self, chunks: Iterable[EventArray]) -> Iterator[EventArray]:
        total = 0
        for chunk in chunks:
            total += len(chunk)
            if total > MOST_EVENTS:
                raise too_many(self.path)
            yield chunk


class EventsInMemory(EventRecording):
    """A recording of a format that can only be read whole: read at once, held while open."""

    def __init__(self, path: str | Path, format_name: str, events: EventArray) -> None:
        self.path = str(path)
        self._format = format_name
        self._events = events
        self._bytes = Path(path).stat().st_size

    @cached_property
    def info(self) -> RecordingInfo:
        events = self._events
        return RecordingInfo(self._format, len(events), events.width, events.height, events.t_min_us, events.t_max_us)

    @property
    def bytes_read(self) -> int:
        return self._bytes

    def chunks(self) -> Iterator[EventArray]:
        for start in range(0, len(self._events), CHUNK_EVENTS):
            yield self._events.slice_count(start, start + CHUNK_EVENTS)

    def read(self) -> EventArray:
        return self._events

    def read_time(self, start_us: int, stop_us: int) -> EventArray:
        return self._events.slice_time(start_us, stop_us)

    def close(self) -> None:
        self._events = NO_EVENTS


def too_many(path: str) -> UserError:
    return UserError(
        f"{path}: holds more than the {MOST_EVENTS // 1_000_000} million events that are read at once; name a part of "
        "it with --start-ms and --duration-ms."
    )


def check_sensor(
    x: npt.NDArray[np.uint16], y: npt.NDArray[np.uint16], width: int | None, height: int | None, path: str
) -> None:
    """Raises UserError when an event, of one or more, lies outside a sensor; None is a side that nothing tells."""
    sides = [MAX_COORDINATE + 1 if side is None else min(side, MAX_COORDINATE + 1) for side in (width, height)]
    if x.max() >= sides[0] or y.max() >= sides[1]:
        sensor = "the sensor" if width is None else f"the {width}x{height} sensor"
        raise UserError(
            f"{path}: events lie at x = {x.max()}, y = {y.max()}, outside {sensor}; the file is damaged, so copy or "
            "export it again."
        )


def joined(chunks: Iterable[EventArray]) -> EventArray:
    """One array of all chunks; a single one comes back uncopied."""
    parts = [chunk for chunk in chunks if len(chunk)]
    if len(parts) <= 1:
        return parts[0] if parts else NO_EVENTS
    x, y, t_us, p = ([getattr(part, name) for part in parts] for name in ("x", "y", "t_us", "p"))
    return EventArray(np.concatenate(x), np.concatenate(y), np.concatenate(t_us), np.concatenate(p))


class FileBytes:
    """An open, non-empty file that is read at places. Every call may raise UserError."""

    def __init__(self, path: str | Path) -> None:
        found = readable_file(path)
        self.path = str(path)
        self.bytes_read = 0
        try:
            self._file = raw_file(found)
            self.size = self._file.seek(0, 2)
        except OSError as error:
            raise unreadable(path, error) from None

    def at(self, offset: int, count: int) -> bytes:
        """`count` bytes from `offset`; fewer only where the file ended when it was opened, none from outside of it."""
        count = min(count, self.size - offset)
        if count <= 0 or offset < 0:
            return b""
        try:
            self._file.seek(offset)
            got = self._file.read(count)
            while len(got) < count:
                more = self._file.read(count - len(got))
                if not more:
                    raise UserError(f"{self.path}: became shorter while it was read; open it again once it is written.")
                got += more
        except (OSError, ValueError, MemoryError) as error:
            raise unreadable(self.path, error) from None
        self.bytes_read += len(got)
        return got

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Inside, an error closes the file; without one it stays open."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._file.close()


_SPARE_BYTES = 160 << 20
_SPARE_PACKET_BYTES = 16 << 20


class Expansion:
    """Counts what one file was compressed to and what it became. Raises UserError where that is beyond reason."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._whole = Budget(path, 0, spare=_SPARE_BYTES)

    @staticmethod
    def most(packed: int) -> int:
        """Bytes that a packet of so many may become."""
        return RATIO * packed + _SPARE_PACKET_BYTES

    def expect(self, packed: int, unpacked: int) -> None:
        """Before a packet of so many bytes becomes so many at most."""
        Budget(self._path, packed, RATIO, _SPARE_PACKET_BYTES).check(unpacked)

    def count(self, packed: int, unpacked: int) -> None:
        """After decompression: all of it together must be within reason, too."""
        self._whole.take(unpacked, packed)


class FileRecording(EventRecording):
    """A recording that reads one file itself. Raises UserError where the file's beginning is not as it should be."""

    def __init__(self, file: str | Path | FileBytes) -> None:
        """Takes over a file that is open already."""
        self._file = file if isinstance(file, FileBytes) else FileBytes(file)
        self.path = self._file.path
        with self._file.kept():
            self._begin()

    def _begin(self) -> None:
        """Looks at the file's beginning."""

    @property
    def bytes_read(self) -> int:
        return self._file.bytes_read

    def close(self) -> None:
        self._file.close()
