"""Events for the player: small recordings held, long ones read in parts, and the pictures drawn of both."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events import opening
from evprof.loaders.events.recording import EventRecording, RecordingInfo
from evprof.loaders.pictures.render import render_events
from evprof.loaders.pictures.renderings import RENDERINGS
from ui.players.event_look import EventArtist, EventLook
from ui.players.event_windows import BLOCK_EVENTS, EventWindows, open_windows
from ui.players.picture_feed import EventPictures

ZERO_US = 1_700_000_000_000_000


def busy_second(seconds: int, per_second: int, *, zero_us: int = ZERO_US) -> EventArray:
    """Evenly timed events that wander over a small sensor."""
    count = seconds * per_second
    number = np.arange(count)
    return EventArray(
        (number * 7 % 64).astype(np.uint16),
        (number * 11 % 48).astype(np.uint16),
        zero_us + number * 1_000_000 // per_second,
        (number % 2).astype(np.uint8),
    )


class Counted(EventRecording):
    """A recording that notes every reading. `says` is its info; it is never read whole."""

    def __init__(self, events: EventArray, says: RecordingInfo) -> None:
        self.path = "counted.h5"
        self.events = events
        self.says = says
        self.asked: list[tuple[int, int]] = []
        self.is_closed = False

    @property
    def info(self) -> RecordingInfo:
        return self.says

    @property
    def bytes_read(self) -> int:
        return 0

    def chunks(self) -> Iterator[EventArray]:
        raise AssertionError("a long recording was read whole")

    def read_time(self, start_us: int, stop_us: int) -> EventArray:
        self.asked.append((start_us, stop_us))
        return self.events.slice_time(start_us, stop_us)

    def close(self) -> None:
        self.is_closed = True


def counted(seconds: int = 100, per_second: int = 50_000, *, size: bool = True) -> Counted:
    events = busy_second(seconds, per_second)
    width, height = (64, 48) if size else (None, None)
    info = RecordingInfo("dsec-h5", len(events), width, height, int(events.t_us[0]), int(events.t_us[-1]))
    return Counted(events, info)


def held(events: EventArray) -> EventWindows:
    recording = Counted(events, RecordingInfo("npy", len(events), 64, 48, events.t_min_us, events.t_max_us))
    recording.read = lambda: events  # type: ignore[method-assign]  # a recording that may be read whole
    return EventWindows(recording, holds_all=True)


def same(found: EventArray, wanted: EventArray) -> bool:
    return all(np.array_equal(getattr(found, name), getattr(wanted, name)) for name in ("x", "y", "t_us", "p"))


def test_a_long_recording_is_read_in_small_windows_only() -> None:
    recording = counted()
    windows = EventWindows(recording)
    assert windows.duration_us == 100 * 1_000_000 - 20
    for start_us in (0, 37_250_000, 37_260_000, 37_290_000, 99_990_000):
        found = windows.between(start_us, start_us + 10_000)
        assert same(found, recording.events.slice_time(ZERO_US + start_us, ZERO_US + start_us + 10_000))
    lengths = [stop - start for start, stop in recording.asked]
    assert max(lengths) <= 1_000_000
    assert len(recording.asked) == 3, "what lies beside what was read is read again"


def test_windows_across_blocks_lose_and_double_nothing() -> None:
    recording = counted(seconds=4, per_second=2_000_000)
    windows = EventWindows(recording)
    block_us = windows._block_us
    assert block_us == pytest.approx(1_000_000 * BLOCK_EVENTS / 2_000_000, rel=0.01)
    for start_us, stop_us in ((block_us - 3, block_us + 3), (0, 5 * block_us), (7 * block_us, 7 * block_us + 1)):
        assert same(
            windows.between(start_us, stop_us), recording.events.slice_time(ZERO_US + start_us, ZERO_US + stop_us)
        )
    assert len(windows.between(-50, 0)) == 0
    assert len(windows.between(4_000_000, 5_000_000)) == 0


def test_the_canvas_grows_where_nothing_tells_its_size() -> None:
    recording = counted(size=False)
    windows = EventWindows(recording)
    assert (windows.width, windows.height) == (1, 1)
    windows.between(0, 1_000)
    assert (windows.width, windows.height) == (64, 48)


def test_a_recording_that_fails_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = counted(seconds=2)

    def refuse() -> EventArray:
        raise UserError("counted.h5: is damaged.")

    monkeypatch.setattr(recording, "read", refuse)
    monkeypatch.setattr(opening, "open_recording", lambda path: recording)
    with pytest.raises(UserError, match="damaged"):
        open_windows("counted.h5")
    assert recording.is_closed


def test_time_that_runs_backwards_is_put_in_order() -> None:
    events = busy_second(1, 1000)
    shuffled = np.random.default_rng(3).permutation(len(events))
    mixed = EventArray(events.x[shuffled], events.y[shuffled], events.t_us[shuffled], events.p[shuffled])
    assert same(held(mixed).between(0, 10**9), events)
    assert same(EventWindows(Counted(mixed, counted(1, 1000).says)).between(0, 10**9), events)


# Looks.


def test_as_eventgpt_sees_it_is_exactly_that() -> None:
    events = busy_second(1, 20_000)
    pictures = EventPictures(held(events))
    shown = pictures.picture_at(500_000, EventLook("eventgpt", 10_000))
    part = events.slice_time(ZERO_US + 490_001, ZERO_US + 500_001)
    assert (shown == render_events(part, width=64, height=48)).all()


@pytest.mark.parametrize("rendering", RENDERINGS)
def test_every_rendering_draws_held_and_read_events_alike(rendering: str) -> None:
    recording = counted(seconds=3, per_second=30_000)
    whole, parts = EventArtist(held(recording.events)), EventArtist(EventWindows(recording))
    for position_us in (0, 40, 1_234_567, 2_999_900, 10**9):
        look = EventLook(rendering, 5_000, is_dark=False)
        picture = whole.picture_at(position_us, look)
        assert picture.shape == (48, 64, 3)
        assert (picture == parts.picture_at(position_us, look)).all()


def test_at_the_beginning_the_first_events_are_gathered() -> None:
    events = busy_second(2, 10_000)
    artist = EventArtist(held(events))
    assert (
        artist.picture_at(0, EventLook("eventgpt", span_us=100_000))
        == artist.picture_at(99_999, EventLook("eventgpt", span_us=100_000))
    ).all()


def test_an_empty_recording_is_a_sentence() -> None:
    none = np.empty(0, np.int64)
    with pytest.raises(UserError, match="no events"):
        held(EventArray(none.astype(np.uint16), none.astype(np.uint16), none, none.astype(np.uint8)))
