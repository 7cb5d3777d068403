"""Reads the `.bin` files of N-Caltech101 and N-MNIST: records of 5 bytes without any header.

Format: Orchard et al., "Converting Static Image Datasets to Spiking Neuromorphic Datasets Using Saccades" (2015). A
record is x, y, and 24 big-endian bits of which the highest is the polarity and the others the time in µs; y = 240 is no
event but adds 2^13 µs to all times from there on. As nothing marks these files, they are told by what they hold alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.blocks import StatefulRecording
from evprof.loaders.events.recording import EventRecording, EventsInMemory, RecordingInfo

_RECORD = np.dtype([("x", "u1"), ("rest", ">u4")])
_WIDTH, _HEIGHT = 240, 180
_OVERFLOW_ROW = 240
_OVERFLOW_US = 1 << 13
_PIECE = 1 << 17
_HELD_RECORDS = 1 << 21
"""Records of the longest file that is read at once; the datasets' own have some 10,000 to 400,000."""

_FEWEST_RECORDS = 20
_FEWEST_PIXELS = 8
_LONGEST_GAP_US = 5_000
_MOST_STEPS_BACK = 0.02
_SAMPLES = 16
_SAMPLE_RECORDS = 400
_TEXT = frozenset(b"\t\n\r") | frozenset(range(32, 127))


def begins_as_ncaltech(head: bytes, whole: int = 4096) -> bool:
    """Whether a file's first bytes can be such records; `whole` is how long they are when the file goes on."""
    if len(head) < whole and len(head) % _RECORD.itemsize:
        return False
    return len(head) >= _FEWEST_RECORDS * _RECORD.itemsize and _is_plausible(_records(head))


def open_recording(path: str | Path) -> EventRecording:
    """An N-Caltech101 or N-MNIST recording. Raises UserError where the whole of the file does not look like one."""
    recording = Ncaltech(path)
    if recording.records > _HELD_RECORDS:
        return recording
    with recording:
        return EventsInMemory(path, "n-caltech", recording.read())


class Ncaltech(StatefulRecording[int]):
    """The state of a block is the number of overflow rows before it."""

    def _begin(self) -> None:
        self.records, rest = divmod(self._file.size, _RECORD.itemsize)
        step = max(1, self.records // _SAMPLES)
        starts = range(0, max(1, self.records - _SAMPLE_RECORDS), step)
        if rest or not all(_is_plausible(self._at(start, _SAMPLE_RECORDS), strictly=False) for start in starts):
            raise self._doubt()
        self._begin_at(0, 0, self.records)

    @property
    def info(self) -> RecordingInfo:
        limits = self._limits_us
        return RecordingInfo("n-caltech", None, None, None, *limits)

    def _at(self, start: int, count: int) -> npt.NDArray[Any]:
        return _records(self._file.at(start * _RECORD.itemsize, count * _RECORD.itemsize))

    def _block(self, place: int, state: int) -> tuple[EventArray, int, int]:
        records = self._at(place, _PIECE)
        x, y, t_us, p = _columns(records)
        over = y == _OVERFLOW_ROW
        passed = np.cumsum(over) + state
        t_us += passed * _OVERFLOW_US
        if over.any():
            x, y, t_us, p = (column[~over] for column in (x, y, t_us, p))
        if len(y) and (x.max() >= _WIDTH or y.max() >= _HEIGHT):
            raise self._doubt()
        return EventArray(x, y, t_us, p), place + len(records), int(passed[-1])

    def _doubt(self) -> UserError:
        return UserError(f"{self.path}: is not an event recording: it begins like N-Caltech101, but does not go on so.")


def _records(content: bytes) -> npt.NDArray[Any]:
    return np.frombuffer(content, _RECORD, len(content) // _RECORD.itemsize)


def _columns(
    records: npt.NDArray[Any],
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16], npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    rest = records["rest"].astype(np.uint32)
    y = (rest >> np.uint32(24)).astype(np.uint16)
    p = ((rest >> np.uint32(23)) & np.uint32(1)).astype(np.uint8)
    return records["x"].astype(np.uint16), y, (rest & np.uint32(0x7F_FFFF)).astype(np.int64), p


def _is_plausible(records: npt.NDArray[Any], *, strictly: bool = True) -> bool:
    """Whether records lie on the sensor and go on in time; `strictly` also that they look like an event camera's."""
    x, y, t_us, _ = _columns(records)
    over = y == _OVERFLOW_ROW
    t_us = (t_us + np.cumsum(over) * _OVERFLOW_US)[~over]
    if not len(t_us) or not ((over | (y < _HEIGHT)).all() and (over | (x < _WIDTH)).all()):
        return False
    if np.count_nonzero(t_us[1:] < t_us[:-1]) > _MOST_STEPS_BACK * len(records):
        return False
    if not strictly:
        return True
    pixels = np.unique(x.astype(np.int64) << 16 | y)
    span_us = int(t_us[-1] - t_us[0])
    is_lively = min(len(pixels), len(np.unique(t_us))) >= max(_FEWEST_PIXELS, len(records) // 10)
    return is_lively and span_us <= _LONGEST_GAP_US * len(records) and not _TEXT.issuperset(records.tobytes())
