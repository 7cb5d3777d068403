"""Recordings are described from chunks, exactly; long ones from what they say of themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.events import EventArray
from evprof.loaders import inspection
from evprof.loaders.events.recording import EventRecording, RecordingInfo
from evprof.loaders.inspection import inspect_events, inspect_video, survey
from evprof.loaders.pictures.png import encode_png


class Chunked(EventRecording):
    """Events in pieces of a given length; `info` as told."""

    def __init__(self, events: EventArray, length: int, info: RecordingInfo | None = None) -> None:
        self.path = "made.raw"
        self.read_chunks = 0
        self._events, self._length, self._info = events, length, info or RecordingInfo("made")

    @property
    def info(self) -> RecordingInfo:
        return self._info

    @property
    def bytes_read(self) -> int:
        return 0

    def chunks(self) -> Iterator[EventArray]:
        for start in range(0, len(self._events), self._length):
            self.read_chunks += 1
            yield self._events.slice_count(start, start + self._length)

    def close(self) -> None:
        """Nothing is open."""


def events_of(times: list[int]) -> EventArray:
    count = len(times)
    random = np.random.default_rng(count)
    return EventArray(
        random.integers(0, 640, count).astype(np.uint16),
        random.integers(0, 480, count).astype(np.uint16),
        np.array(times, dtype=np.int64),
        random.integers(0, 2, count).astype(np.uint8),
    )


@given(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=40), st.integers(1, 12), st.booleans())
def test_chunks_add_up_to_the_whole(times: list[int], length: int, in_order: bool) -> None:
    events = events_of(sorted(times) if in_order else times)
    found = survey(Chunked(events, length))
    assert found.is_whole
    assert (found.events, found.width, found.height) == (len(events), events.width, events.height)
    assert (found.t_min_us, found.t_max_us) == (events.t_min_us, events.t_max_us)
    assert (found.duration_us, found.is_sorted) == (events.duration_us, events.is_sorted)
    assert found.positive == int(events.p.sum())


def test_a_survey_ends_after_so_many() -> None:
    recording = Chunked(events_of(list(range(100))), 10)
    found = survey(recording, most=25)
    assert (found.events, found.is_whole, recording.read_chunks) == (30, False, 4)


def test_long_recordings_are_described_without_reading_them(monkeypatch: pytest.MonkeyPatch) -> None:
    said = RecordingInfo("evt3", 10**9, 1280, 720, 5, 60_000_005, {"sensor": "IMX636"}, ("Cut short.",))
    recording = Chunked(events_of([1, 2]), 1, said)
    monkeypatch.setattr(inspection, "open_recording", lambda _: recording)
    assert inspect_events("made.raw") == {
        "schema_version": 1,
        "path": "made.raw",
        "kind": "events",
        "problems": ["Cut short."],
        "format": "evt3",
        "events": 10**9,
        "width": 1280,
        "height": 720,
        "duration_us": 60_000_000,
        "t_min_us": 5,
        "t_max_us": 60_000_005,
        "positive_fraction": None,
        "details": {"sensor": "IMX636"},
    }
    assert recording.read_chunks == 0


def test_a_folder_of_pictures_is_a_video(tmp_path: Path) -> None:
    for number in range(3):
        noise = np.random.default_rng(number).integers(0, 255, (6, 8, 3)).astype(np.uint8)
        (tmp_path / f"{number}.png").write_bytes(encode_png(noise))
    times = tmp_path / "times" / "timestamps.txt"
    times.parent.mkdir()
    times.write_text("100\n40100\n80100\n")
    guessed = inspect_video(tmp_path)
    assert (guessed["frames"], guessed["width"], guessed["height"]) == (3, 8, 6)
    assert "25 per second are assumed" in guessed["problems"][0]
    told = inspect_video(tmp_path, times)
    assert told["problems"] == []
    assert told["duration_ms"] == 120
