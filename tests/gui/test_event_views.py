"""What an event player shows besides its picture: a region and its counts, points in space, the rate over time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QPointF, QSettings, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from evprof.core.events import EventArray
from evprof.loaders.events.opening import read_events
from evprof.loaders.events.recording import EventsInMemory
from evprof.view.event_rates import Region, polarity_counts
from evprof.view.point_cloud import UNTURNED, ViewAngle
from ui.players.event_look import POINTS, EventLook
from ui.players.event_player import EventPlayer
from ui.players.event_windows import SAMPLE_US, EventWindows, RateSurvey
from ui.players.look_choice import LookChoice
from ui.players.picture_feed import PlayerInput
from ui.players.play_clock import PlayClock
from ui.style.theme import ThemeHolder

Wait = Callable[..., None]


@pytest.fixture
def settings(tmp_path: Path) -> QSettings:
    return QSettings(str(tmp_path / "evprof.ini"), QSettings.Format.IniFormat)


@pytest.fixture
def player(
    application: QApplication, themes: ThemeHolder, files: dict[str, str], settings: QSettings, wait_until: Wait
) -> Iterator[EventPlayer]:
    """The bundled recording, 240 x 180 and 50 ms long, at its end; every picture gathers all of it."""
    choice = LookChoice(settings)
    choice.choose(EventLook(span_us=100_000))
    clock = PlayClock()
    made = EventPlayer(themes, clock, choice)
    made.resize(480, 384)
    made.show_input(PlayerInput(files["events"]), None)
    made.show()
    wait_until(lambda: made.is_drawn and not made.is_waiting)
    clock.seek(clock.stop_us)
    wait_until(lambda: not made.is_waiting)
    yield made
    made.close_feed()
    made.close()
    made.deleteLater()


def drag(widget: QWidget, first: QPointF, second: QPointF) -> None:
    left, none = Qt.MouseButton.LeftButton, Qt.MouseButton.NoButton
    middle = QPointF((first.x() + second.x()) / 2, (first.y() + second.y()) / 2)
    for kind, at, held in (
        (QEvent.Type.MouseButtonPress, first, left),
        (QEvent.Type.MouseMove, middle, left),
        (QEvent.Type.MouseMove, second, left),
        (QEvent.Type.MouseButtonRelease, second, none),
    ):
        button = none if kind == QEvent.Type.MouseMove else left
        event = QMouseEvent(kind, at, widget.mapToGlobal(at), button, held, Qt.KeyboardModifier.NoModifier)
        QApplication.sendEvent(widget, event)


def test_a_drag_chooses_a_region_whose_events_are_counted(
    player: EventPlayer, files: dict[str, str], settings: QSettings, wait_until: Wait
) -> None:
    place, image = player.picture_place(), player.image
    assert place is not None
    assert image is not None
    scale = place.width() / image.width()
    first, second = (place.topLeft() + QPointF(x, y) * scale for x, y in ((60.5, 40.5), (119.5, 99.5)))
    drag(player, first, second)
    assert player.look.region == Region(60, 40, 120, 100)
    assert not player.grab().isNull()
    wait_until(lambda: not player.is_waiting)
    on, off = polarity_counts(Region(60, 40, 120, 100).events(read_events(files["events"])))
    assert f"ON {on:,} · OFF {off:,}" in player.told
    rates = player.rate_curve.rates
    assert rates is not None
    assert (rates.on.sum(), rates.off.sum()) == (on, off)
    # Remembered from one start to the next.
    assert LookChoice(settings).look.region == Region(60, 40, 120, 100)


def test_one_click_clears_the_region_and_others_play(player: EventPlayer, wait_until: Wait) -> None:
    player._choice.choose(replace(player._choice.look, region=Region(60, 40, 120, 100)))
    wait_until(lambda: not player.is_waiting)
    clear, region = player.clear_place(), player.region_place()
    assert clear is not None
    assert region is not None
    QTest.mouseClick(player, Qt.MouseButton.LeftButton, pos=region.center().toPoint())
    assert player._clock.is_playing
    player._clock.set_playing(False)
    QTest.mouseClick(player, Qt.MouseButton.LeftButton, pos=clear.center().toPoint())
    assert not player._clock.is_playing
    assert player.look.region is None
    wait_until(lambda: not player.is_waiting)
    assert player.told == ""


def test_the_curve_counts_every_event_once_and_leads_there(
    player: EventPlayer, files: dict[str, str], wait_until: Wait
) -> None:
    events = read_events(files["events"])
    curve = player.rate_curve
    wait_until(lambda: curve.rates is not None and bool(curve.rates.looked_us.all()))
    rates = curve.rates
    assert rates is not None
    assert (rates.on.sum(), rates.off.sum()) == polarity_counts(events)
    assert not rates.is_sampled
    assert curve.isVisible()
    QTest.mouseClick(curve, Qt.MouseButton.LeftButton, pos=curve.rect().center())
    assert player._clock.position_us == pytest.approx(25_000, rel=0.05)
    assert curve.words_at(25_000).startswith("25 ms: ON ")


def test_points_are_turned_by_hand(player: EventPlayer, wait_until: Wait) -> None:
    player._choice.choose(replace(player._choice.look, rendering=POINTS))
    wait_until(lambda: not player.is_waiting)
    before = player.grab().toImage()
    drag(player, QPointF(100, 100), QPointF(160, 80))
    assert player.look.turn == UNTURNED.by(30, 10).by(30, 10)
    assert player.look.region is None
    wait_until(lambda: not player.is_waiting)
    assert player.grab().toImage() != before
    assert player.region_place() is None


def busy(count: int, duration_us: int) -> EventWindows:
    import numpy as np

    numbers = np.arange(count)
    events = EventArray.from_columns(numbers % 64, numbers % 48, numbers * duration_us // count, numbers % 2)
    return EventWindows(EventsInMemory(__file__, "npy", events), holds_all=True)


def test_of_a_long_recording_a_part_of_every_bin_is_looked_at() -> None:
    survey = RateSurvey(busy(100_000, 60_000_000), None)
    while survey.step():
        pass
    rates = survey.rates
    assert rates.is_sampled
    assert (rates.looked_us == SAMPLE_US).all()
    assert (rates.on_per_s + rates.off_per_s).mean() == pytest.approx(100_000 / 60, rel=0.05)


def test_a_look_is_remembered_with_its_region_and_turn() -> None:
    look = EventLook(POINTS, "dark", 1_000_000, None, Region(1, 2, 3, 4), ViewAngle(170, -90))
    assert EventLook.from_text(look.text) == look
    for text in ("polarity dark 10000 0 region=3,2,1,4", "polarity dark 10000 0 turn=999,0 what=1"):
        assert EventLook.from_text(text) == EventLook("polarity", "dark")
    assert EventLook("decay", span_us=30_000).words == "30 ms · τ 10 ms"
