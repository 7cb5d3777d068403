"""Moves events to where an ideal lens would have shown them, by DSEC's `rectify_map.h5`.

It knows no recording format.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.events import MAX_COORDINATE, EventArray
from evprof.loaders.events.hdf5.stored import (
    StoredArray,
    begins_as_hdf5,
    find,
    is_dataset,
    listing,
    open_file,
    sentences,
)
from evprof.loaders.events.recording import HEAD_BYTES, EventRecording, RecordingInfo
from evprof.loaders.paths import first_bytes

_PLACE = "/rectify_map"
_OUTSIDE = np.uint16(65_535)
_MOST_PIXELS = 1 << 22
"""Four times the pixels of the largest event sensors."""


@dataclass(frozen=True, eq=False)
class RectifyMap:
    """For every pixel of a sensor the pixel of the rectified picture, which has the sensor's size.

    `x`, `y`: uint16 [height x width], row by row; 65535 where the rectified place lies outside the picture.
    """

    path: str
    width: int
    height: int
    x: npt.NDArray[np.uint16]
    y: npt.NDArray[np.uint16]

    @classmethod
    def load(cls, path: str | Path) -> RectifyMap:
        """The map of a file with `/rectify_map`, float [height, width, 2], used as map[y, x] -> (x', y').

        Places are rounded to the nearest pixel. Raises UserError when there is none, or one that is no map.
        """
        name = str(path)
        if not begins_as_hdf5(first_bytes(path, HEAD_BYTES)):
            raise UserError(f"{path}: is no HDF5 file, where DSEC's rectify_map.h5 is expected; choose the map.")
        with sentences(name), open_file(path) as file:
            places = _read_places(file, name)
        height, width = places.shape[:2]
        if not np.isfinite(places).all():
            raise UserError(f"{name}: the rectification map holds values that are no numbers; download it again.")
        x, y = np.rint(places, out=places).reshape(-1, 2).T
        outside = (x < 0) | (x >= width) | (y < 0) | (y >= height)
        if outside.all():
            raise UserError(
                f"{name}: the rectification map sends every pixel out of the picture of {width}x{height}; is it in "
                "other units?"
            )
        places[outside.reshape(height, width)] = _OUTSIDE
        return cls(name, width, height, x.astype(np.uint16), y.astype(np.uint16))

    def apply(self, events: EventArray) -> EventArray:
        """The events at their rectified pixels, in the same order, without those that leave the picture.

        How many left is the difference in length. Raises UserError for events outside the map: it is of another sensor.
        """
        if not len(events):
            return events
        if events.width > self.width or events.height > self.height:
            raise UserError(
                f"{self.path}: the rectification map is for {self.width}x{self.height} pixels, but events reach "
                f"x = {events.width - 1}, y = {events.height - 1}; choose the map of this sensor."
            )
        pixel = events.y.astype(np.intp) * self.width + events.x
        x = self.x[pixel]
        inside = x != _OUTSIDE
        if inside.all():
            return EventArray(x, self.y[pixel], events.t_us, events.p)
        return EventArray(x[inside], self.y[pixel[inside]], events.t_us[inside], events.p[inside])


class Rectified(EventRecording):
    """A recording seen through a rectification map; closes what it wraps.

    The clock's origin stays the file's: rectified or not, a clip is the same time.
    """

    def __init__(self, recording: EventRecording, rectify_map: RectifyMap) -> None:
        self.path = recording.path
        self._recording = recording
        self._map = rectify_map

    @property
    def info(self) -> RecordingInfo:
        """As the recording's, but the number of events is known only by reading, and the size is the map's."""
        info = self._recording.info
        details: dict[str, str | int | float] = {**info.details, "rectified_by": self._map.path}
        if info.events is not None:
            details["events_in_file"] = info.events
        return replace(info, events=None, width=self._map.width, height=self._map.height, details=details)

    @property
    def bytes_read(self) -> int:
        return self._recording.bytes_read

    def chunks(self) -> Iterator[EventArray]:
        """The recording's chunks, without those of which nothing is left."""
        for chunk in self._recording.chunks():
            rectified = self._map.apply(chunk)
            if len(rectified):
                yield rectified

    def read(self) -> EventArray:
        """All events that stay in the picture. Raises UserError when there are none."""
        events = self._map.apply(self._recording.read())
        if not len(events):
            raise UserError(f"{self.path}: rectification leaves no event in the picture; is {self._map.path} its map?")
        return events

    def read_time(self, start_us: int, stop_us: int) -> EventArray:
        return self._map.apply(self._recording.read_time(start_us, stop_us))

    def origin_us(self) -> int:
        return self._recording.origin_us()

    def close(self) -> None:
        self._recording.close()


def _read_places(file: Any, name: str) -> npt.NDArray[Any]:
    """Floats [height, width, 2] of a size that a sensor can have."""
    found = find(file, _PLACE, name)
    if found is None or not is_dataset(found):
        raise UserError(f"{name}: holds {listing(file)}; a rectification map has {_PLACE}, as DSEC's rectify_map.h5.")
    stored = StoredArray(found, _PLACE, name)
    shape = stored.shape
    fits = len(shape) == 3 and shape[2] == 2 and all(0 < length <= MAX_COORDINATE for length in shape[:2])
    if not fits or shape[0] * shape[1] > _MOST_PIXELS or stored.dtype.kind != "f":
        raise UserError(
            f"{name}: {_PLACE} has the shape {list(shape)} of {stored.dtype}; fractional pixels of shape "
            "[height, width, 2] are expected."
        )
    places = stored.rows(0, len(stored))
    return places if places.dtype.isnative else places.astype(places.dtype.newbyteorder("="))
