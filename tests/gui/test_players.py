"""Players: pictures from a thread, one clock, silence while a run is measured, sentences for broken files."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
from PySide6.QtWidgets import QApplication

from evprof.core.events import EventArray
from evprof.loaders.events.opening import read_events
from evprof.loaders.pictures.palette import PALETTES
from evprof.loaders.pictures.render import Picture
from ui.players.event_look import EventLook
from ui.players.event_player import EventPlayer
from ui.players.frame_player import FramePlayer, video_player
from ui.players.picture_feed import PictureFeed, PictureSource, PlayerInput, event_pictures
from ui.players.play_clock import InputSpan, PlayClock
from ui.style.theme import ThemeHolder

Wait = Callable[..., None]


class Counting(PictureSource):
    """A source that counts what is asked of it."""

    duration_us = 1_000_000
    is_drawn = True

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.is_closed = False
        self.gate = threading.Event()
        self.gate.set()

    def picture_at(self, position_us: int, look: EventLook | None = None) -> Picture:
        self.asked.append(position_us)
        self.gate.wait(300)
        return np.full((6, 8, 3), position_us % 251, dtype=np.uint8)

    def close(self) -> None:
        self.is_closed = True


def test_only_the_latest_wish_counts(wait_until: Wait) -> None:
    source = Counting()
    source.gate.clear()
    feed = PictureFeed(PlayerInput("x"), lambda _: source)
    feed.want(1)
    wait_until(lambda: source.asked == [1])
    for wish in range(2, 50):
        feed.want(wish)
    source.gate.set()
    wait_until(lambda: feed.state.position_us == 49)
    assert source.asked == [1, 49]
    feed.close()
    wait_until(lambda: source.is_closed)


def test_a_paused_feed_opens_nothing(wait_until: Wait) -> None:
    opened: list[str] = []
    source = Counting()

    def open_source(given: PlayerInput) -> Counting:
        opened.append(given.path)
        return source

    feed = PictureFeed(PlayerInput("x"), open_source)
    feed.set_paused(True)
    feed.want(7)
    threading.Event().wait(0.1)
    assert not opened
    feed.set_paused(False)
    wait_until(lambda: source.asked == [7])
    feed.close()


def test_event_pictures_are_the_events_of_the_last_moment(files: dict[str, str]) -> None:
    events = read_events(files["events"])
    source = event_pictures(PlayerInput(files["events"]))
    assert source.duration_us == events.duration_us
    picture = source.picture_at(20_000)
    start = (events.t_min_us or 0) + 20_000 - 10_000 + 1
    shown: EventArray = events.slice_time(start, start + 10_000)
    coloured = (picture != PALETTES["dark"].none).any(axis=2)
    assert len(shown) > 0
    wanted = np.zeros_like(coloured)
    wanted[shown.y, shown.x] = True
    assert (coloured == wanted).all()


@pytest.mark.parametrize(("kind", "player_type"), [("events", EventPlayer), ("video", video_player)])
def test_players_follow_the_clock(
    kind: str, player_type: Callable[..., FramePlayer], files: dict[str, str], themes: ThemeHolder, wait_until: Wait
) -> None:
    clock = PlayClock()
    player = player_type(themes, clock)
    player.show()
    player.show_input(PlayerInput(files[kind]), None)
    wait_until(lambda: player.image is not None)
    first = player.image
    clock.seek(clock.duration_us * 2 // 3)
    wait_until(lambda: player.image is not None and player.image != first)
    player.close_feed()
    assert clock.duration_us == 0


def test_players_are_still_while_a_run_is_measured(
    files: dict[str, str], themes: ThemeHolder, wait_until: Wait, application: QApplication
) -> None:
    clock = PlayClock()
    player = video_player(themes, clock)
    player.show()
    player.show_input(PlayerInput(files["video"]), None)
    wait_until(lambda: player.image is not None)
    clock.set_playing(True)
    wait_until(lambda: clock.position_us > 0)
    clock.set_suspended(True)
    place, picture = clock.position_us, player.image
    for _ in range(20):
        application.processEvents()
        threading.Event().wait(0.01)
    assert clock.position_us == place
    assert player.image == picture
    clock.set_suspended(False)
    wait_until(lambda: clock.position_us != place)
    player.close_feed()


def test_a_broken_file_says_so_on_the_screen_and_to_the_window(tmp_path, themes: ThemeHolder, wait_until) -> None:
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"no video at all")
    player = video_player(themes, PlayClock())
    player.show()
    told: list[str] = []
    player.failed.connect(told.append)
    player.show_input(PlayerInput(str(broken)), None)
    wait_until(lambda: told)
    assert "broken.mp4" in told[0]
    assert player.note == told[0]
    player.close_feed()


def test_the_clock_stays_inside_and_starts_over(wait_until: Wait) -> None:
    clock = PlayClock()
    clock.set_span("a", InputSpan("events", 0, 100_000))
    clock.set_span("b", InputSpan("video", 0, 40_000))
    clock.seek(10**9)
    assert clock.position_us == 100_000
    clock.set_span("a", None)
    assert (clock.duration_us, clock.position_us) == (40_000, 40_000)
    clock.set_playing(True)
    wait_until(lambda: 0 < clock.position_us < 40_000)
    clock.set_playing(False)
