"""The start page, its thumbnails, and the tour: what stands there, what takes them away, and what they never do."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QEvent, QSettings, Qt
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from evprof.core.run_book import RunBook
from evprof.run.processes.engine_host import EngineHost
from evprof.session.reading import read_session
from scripted_process import engine_argv
from ui.state.recent import Recent
from ui.state.selection import SpanRef
from ui.style.theme import ThemeHolder
from ui.welcome.recent_sessions import look_up
from ui.welcome.session_card import SessionCard, content_lines
from ui.welcome.thumbnails import KEPT, SIZE, keep_thumbnail, thumbnail, thumbnail_folder
from ui.window.main_window import MainWindow

Wait = Callable[..., Any]


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    return tmp_path


@pytest.fixture
def settings(tmp_path: Path) -> QSettings:
    return QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat)


@pytest.fixture
def window(application: QApplication, themes: ThemeHolder, settings: QSettings) -> Iterator[MainWindow]:
    made = MainWindow(themes, settings)
    made.resize(1280, 720)
    made.show()
    yield made
    made.close()
    made.deleteLater()
    application.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def _picture(color: Qt.GlobalColor = Qt.GlobalColor.red) -> QImage:
    made = QImage(1200, 700, QImage.Format.Format_RGB32)
    made.fill(color)
    return made


def test_a_thumbnail_is_small_and_the_oldest_make_room(tmp_path: Path) -> None:
    keep_thumbnail(tmp_path / "a.evprof", _picture())
    found = thumbnail(tmp_path / "a.evprof")
    assert found is not None
    assert found.size() == SIZE
    for old in thumbnail_folder().iterdir():
        os.utime(old, (1, 1))
    for number in range(KEPT):
        keep_thumbnail(tmp_path / f"{number}.evprof", _picture())
    assert len(list(thumbnail_folder().iterdir())) == KEPT
    assert thumbnail(tmp_path / "a.evprof") is None


@pytest.mark.parametrize("content", [b"", b"no picture", b"\x89PNG\r\n\x1a\n" + bytes(4000), bytes(2 << 20)])
def test_a_damaged_thumbnail_is_none(tmp_path: Path, content: bytes) -> None:
    keep_thumbnail(tmp_path / "a.evprof", _picture())
    next(thumbnail_folder().iterdir()).write_bytes(content)
    assert thumbnail(tmp_path / "a.evprof") is None


def test_recent_sessions_are_those_that_are_still_there(tmp_path: Path) -> None:
    recent = Recent(tmp_path / "recent.json")
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.evprof").write_text("")
        recent.note_session(tmp_path / f"{name}.evprof")
    recent.note_session(tmp_path / "a.evprof")
    (tmp_path / "b.evprof").unlink()
    assert [entry.name for entry in look_up(Recent(tmp_path / "recent.json"))] == ["a", "c"]


def test_a_session_that_was_open_stands_on_the_start_page_with_its_picture(
    window: MainWindow, session_file: Path, wait_until: Wait
) -> None:
    window.session.open(session_file)
    wait_until(lambda: window.controller.runs)
    window.welcome.note()
    window.session.wait()
    window.welcome.open()
    card = wait_until(lambda: window.welcome.page.cards)[0]
    assert card.session.path == session_file
    assert card.session.picture is not None
    window.session.start_new()
    wait_until(lambda: not window.controller.runs)
    window.welcome.open()
    QTest.mouseClick(wait_until(lambda: window.welcome.page.cards)[0], Qt.MouseButton.LeftButton)
    wait_until(lambda: window.controller.runs)
    assert not window.welcome.page.isVisible()


def test_a_session_that_no_window_has_closed_tells_what_is_inside(
    tmp_path: Path, session_file: Path, application: QApplication, themes: ThemeHolder
) -> None:
    recent = Recent(tmp_path / "recent.json")
    (tmp_path / "letter.evprof").write_text("dear reader")
    recent.note_session(tmp_path / "letter.evprof")
    recent.note_session(session_file)
    road, letter = look_up(recent)
    book = RunBook(read_session(session_file))
    book.update()
    assert (road.picture, letter.picture, letter.summary) == (None, None, None)
    head, *lines = content_lines(road.summary)
    assert head == f"{len(book.runs)} runs"
    told = " ".join(text for text, _ in lines)
    assert "Side by side" in told
    assert "Speculative" in told
    assert content_lines(letter.summary) == ("no picture yet",)
    cards = [SessionCard(session, themes) for session in (road, letter)]
    pictures = [card.grab().toImage() for card in cards]
    assert pictures[0] != pictures[1]
    for card in cards:
        card.deleteLater()


def test_the_start_page_goes_with_esc_and_its_buttons_are_the_windows_actions(window: MainWindow) -> None:
    window.actions_by_name["start_page"].trigger()
    page = window.welcome.page
    assert page.isVisible()
    assert page.geometry() == window.body.rect()
    assert set(page.buttons) <= set(window.actions_by_name.by_name)
    window.activateWindow()
    QApplication.processEvents()
    QTest.keyClick(page.buttons["demo"], Qt.Key.Key_Escape)
    assert not page.isVisible()
    assert window.focusWidget() is window.timeline


def test_a_message_covers_no_way_on(window: MainWindow, application: QApplication) -> None:
    page = window.welcome.page
    page.open()
    window.messages.post("A sentence that takes two lines of the window. " * 5, "warn")
    application.processEvents()
    below = window.messages.mapTo(window, window.messages.rect().topLeft()).y()
    assert window.messages.isVisible()
    for button in (*page.buttons.values(), page.close_button):
        assert button.mapTo(window, button.rect().bottomLeft()).y() < below, button.text()


def test_esc_uncovers_the_window_that_opened_with_the_start_page(
    application: QApplication, themes: ThemeHolder, settings: QSettings, wait_until: Wait
) -> None:
    made = MainWindow(themes, settings)
    made.welcome.page.open()
    made.show()
    made.activateWindow()
    wait_until(made.isActiveWindow)
    focused = made.focusWidget()
    assert focused is made.welcome.page.buttons["demo"]
    QTest.keyClick(focused, Qt.Key.Key_Escape)
    assert not made.welcome.page.isVisible()
    assert made.focusWidget() is made.timeline
    made.close()
    made.deleteLater()


def test_the_start_page_goes_before_anything_is_done_below_it(
    window: MainWindow, session_file: Path, wait_until: Wait
) -> None:
    window.session.open(session_file)
    wait_until(lambda: window.controller.runs)
    page, runs = window.welcome.page, len(window.controller.runs)
    for name in ("deselect", "delete_run", "arrange"):
        page.open()
        window.actions_by_name[name].trigger()
        assert not page.isVisible(), name
    assert len(window.controller.runs) == runs
    page.open()
    window.actions_by_name["kv"].trigger()
    assert not page.isVisible()
    panel = window.body.panel("kv")
    assert panel is not None
    assert panel.isVisible()
    page.open()
    window.selection.select(SpanRef(3, 0))
    assert not page.isVisible()


def test_without_settings_nothing_is_kept(
    application: QApplication, themes: ThemeHolder, session_file: Path, tmp_path: Path
) -> None:
    made = MainWindow(themes)
    made.session.read(session_file)
    made.controller.pull()
    made.close()
    made.deleteLater()
    assert not thumbnail_folder().exists()


def test_the_tour_leads_in_six_actions_to_a_compared_and_exported_pair(
    window: MainWindow, wait_until: Wait, tmp_path: Path
) -> None:
    assert sum(step.actions for step in window.tour.steps) <= 6
    host = EngineHost(engine_argv("script:200"), window.session.recording)
    window.start_engine(lambda _: host)
    window.welcome.open()
    window.begin_tour()
    mark = window.tour.mark
    assert mark.words[0] == "STEP 1 OF 4"
    QTest.mouseClick(window.welcome.page.buttons["demo"], Qt.MouseButton.LeftButton)
    wait_until(lambda: window.tour.at == 1)
    assert window.rect().contains(mark.geometry())
    run_id = next(run_id for run_id in window.selection.runs if run_id is not None)
    window.selection.select(SpanRef(run_id, next(iter(window.controller.runs[run_id].spans))))
    wait_until(lambda: window.tour.at == 2)
    # What was chosen scrolls to its facts, and the tour back to what it speaks of.
    wait_until(lambda: window.inspector.sections)
    QTest.qWait(600)
    wait_until(lambda: not window.comparison.more.visibleRegion().isEmpty())
    assert window.rect().contains(mark.geometry())
    window.actions_by_name["compare"].trigger()
    wait_until(lambda: window.tour.at == 3)
    window.exporting.write("json", tmp_path / "pair.json")
    wait_until(lambda: window.tour.at is None)
    assert (tmp_path / "pair.json").exists()
    assert mark.isHidden()


def test_a_tour_that_was_ended_never_comes_back_unasked(
    window: MainWindow, settings: QSettings, themes: ThemeHolder
) -> None:
    assert window.tour.is_new
    window.begin_tour()
    window.tour.mark.end_button.click()
    assert window.tour.at is None
    window.controller.pull()
    assert window.tour.mark.isHidden()
    assert not window.tour.is_new
    window.actions_by_name["tour"].trigger()
    assert window.tour.at == 0


def test_the_mark_takes_no_focus_and_stays_inside_the_window(window: MainWindow) -> None:
    QTest.qWait(20)
    focus = QApplication.focusWidget()
    window.begin_tour()
    for size in ((1280, 720), (900, 600)):
        window.resize(*size)
        QApplication.processEvents()
        window.tour.mark.follow()
        assert window.rect().contains(window.tour.mark.geometry())
    assert QApplication.focusWidget() is focus
