"""What an event player shows besides its picture: the rate of events over time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QSettings, Qt
from PySide6.QtTest import QTest

from evprof.core.events import EventArray
from evprof.loaders.events.opening import read_events
from evprof.loaders.events.recording import EventsInMemory
from evprof.view.event_rates import polarity_counts
from ui.players.event_look import EventLook
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
def player(themes: ThemeHolder, files: dict[str, str], settings: QSettings, wait_until, keep) -> EventPlayer:
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
    return keep(made)


def test_the_curve_counts_every_event_once_and_leads_there(
    player: EventPlayer, files: dict[str, str], wait_until: Wait
) -> None:
    events = read_events(files["events"])
    curve = player.rate_curve
    wait_until(lambda: curve.rates is not None and bool(curve.rates.looked_us.all()))
    rates = curve.rates
    assert (rates.on.sum(), rates.off.sum()) == polarity_counts(events)
    assert not rates.is_sampled
    assert curve.isVisible()
    QTest.mouseClick(curve, Qt.MouseButton.LeftButton, pos=curve.rect().center())
    assert player._clock.position_us == pytest.approx(25_000, rel=0.05)
    assert curve.words_at(25_000).startswith("25 ms: ON ")


def busy(count: int, duration_us: int) -> EventWindows:
    import numpy as np

    numbers = np.arange(count)
    events = EventArray.from_columns(numbers % 64, numbers % 48, numbers * duration_us // count, numbers % 2)
    return EventWindows(EventsInMemory(__file__, "npy", events), holds_all=True)


def test_of_a_long_recording_a_part_of_every_bin_is_looked_at() -> None:
    survey = RateSurvey(busy(100_000, 60_000_000))
    while survey.step():
        pass
    rates = survey.rates
    assert rates.is_sampled
    assert (rates.looked_us == SAMPLE_US).all()
    assert (rates.on_per_s + rates.off_per_s).mean() == pytest.approx(100_000 / 60, rel=0.05)


def test_a_look_is_remembered() -> None:
    look = EventLook("decay", 1_000_000)
    assert EventLook.from_text(look.text) == look
    for text in ("points 10000", "polarity", "polarity 5", "polarity ten"):
        assert EventLook.from_text(text) == EventLook()
    assert EventLook("decay", span_us=30_000).words == "30 ms · τ 10 ms"
