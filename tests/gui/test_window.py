"""The whole window: opening, running through a scripted engine process, failing, saving, closing."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QObject, QSettings, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QDockWidget, QScrollArea

from evprof.core.errors import UserError
from evprof.core.request import RunRequest
from evprof.core.run_info import CANCELLED, FAILED, FINISHED, RUNNING
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from kept import Keep
from ui.style.theme import ThemeHolder
from ui.window.app import save_screenshot, settle
from ui.window.main_window import MainWindow
from whole_session import load_session
from window_driver import start_engine

Wait = Callable[..., None]


def _request(mode: str = "side-by-side", tokens: int = 64) -> RunRequest:
    return RunRequest(
        mode,
        Sample("/gone/scene.npy", "/gone/scene.mp4"),
        ModelChoice("scripted"),
        ModelChoice("scripted"),
        GenerationSettings(max_new_tokens=tokens),
    )


class Paints(QObject):
    """Notes what the timeline's tracks held each time a widget was painted."""

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        self.window = window
        self.shown: dict[int, int] = {}
        """Tokens in the last picture, by run."""
        self.running: set[str] = set()
        """Stages that were drawn while they ran."""
        self.rows: set[int] = set()
        """How many rows there were, in each picture of a run that went on."""

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Paint:
            for _, track in self.window.timeline.scene.shown:
                count = self.shown[track.run.run_id] = len(track.token_times())
                if track.run.info.status == RUNNING:
                    self.rows.add(track.run.run_id * 100_000 + count + len(track.stages) + len(track.parts))
                    running = track.run.running_span
                    if running is not None and track.stages.has_running:
                        self.running.add(running.name)
        return False


def _play(window: MainWindow, wait_until: Wait, request: RunRequest) -> Paints:
    """Runs a request and waits until its last token is in a picture; how soon is what the benchmark `ui` measures."""
    paints = Paints(window)
    window.timeline.latency.installEventFilter(paints)
    first = window.controller.next_run_id
    last = first + (request.mode == "side-by-side")
    window.requests.submit(request)
    wait_until(lambda: last in window.controller.runs and not window.controller.is_busy)
    runs = [window.controller.runs[run_id] for run_id in range(first, last + 1)]
    assert [run.info.status for run in runs] == [FINISHED] * len(runs)
    wait_until(lambda: all(paints.shown[run.run_id] == len(run.tokens) for run in runs))
    window.timeline.latency.removeEventFilter(paints)
    return paints


def test_a_run_is_live(window: MainWindow, wait_until: Wait) -> None:
    """It is drawn again and again before it ends."""
    start_engine(window, 0.6)
    wait_until(lambda: "ready" in window.status.text())
    paints = _play(window, wait_until, _request())
    assert window.selection.runs == (window.controller.next_run_id - 2, window.controller.next_run_id - 1)
    assert len(paints.rows) >= 5
    assert {"prefill", "decode"} <= paints.running <= {"load", "preprocess", "vision", "prefill", "decode"}


def test_a_run_chosen_by_hand_stays_in_view(window: MainWindow, wait_until: Wait) -> None:
    start_engine(window, 200.0)
    window.requests.submit(_request("target"))
    wait_until(lambda: window.controller.runs and not window.controller.is_busy)
    window.requests.submit(_request("draft"), _request("speculative"))
    wait_until(lambda: 2 in window.selection.runs)
    window.following.show_run(1)
    wait_until(lambda: 3 in window.controller.runs and not window.controller.is_busy)
    assert window.selection.runs == (None, 1)


def test_a_killed_engine_leaves_the_window_alive_and_the_next_run_works(window: MainWindow, wait_until: Wait) -> None:
    host = start_engine(window, 1.0)
    window.requests.submit(_request("target"))
    wait_until(lambda: window.controller.runs and len(window.controller.runs[1].tokens) > 2)
    assert host.pid is not None
    os.kill(host.pid, signal.SIGKILL)
    wait_until(lambda: window.controller.runs[1].info.is_over)
    failed = window.controller.runs[1]
    assert failed.info.status == FAILED
    assert len(failed.tokens) > 2
    assert window.messages.shown.sentence.startswith("Run 1 failed")
    window.requests.submit(_request("target", tokens=3))
    wait_until(lambda: 2 in window.controller.runs and window.controller.runs[2].info.is_over)
    assert window.controller.runs[2].info.status == FINISHED


def test_stop_ends_the_run_and_drops_what_waits(window: MainWindow, wait_until: Wait) -> None:
    start_engine(window, 1.0)
    window.requests.submit(_request("target"), _request("speculative"))
    wait_until(lambda: window.controller.runs and window.controller.runs[1].tokens)
    window.actions_by_name["stop"].trigger()
    wait_until(lambda: not window.controller.is_busy)
    QTest.qWait(120)
    assert [run.info.status for run in window.controller.runs.values()] == [CANCELLED]


def test_another_session_waits_for_the_run_and_loses_nothing(window: MainWindow, wait_until, session_file) -> None:
    start_engine(window, 3.0)
    window.requests.submit(_request("target"))
    wait_until(lambda: window.controller.runs)
    window.session.start_new()
    with pytest.raises(UserError, match="going on"):
        window.session.read(session_file)
    assert "A run is going on" in window.messages.shown.sentence
    wait_until(lambda: not window.controller.is_busy)
    kept = window.session.path
    assert kept is not None
    tokens = len(window.controller.runs[1].tokens)
    window.session.read(session_file)
    assert max(window.controller.runs) >= 4
    assert len(load_session(kept).recording.streams["tokens"]) == tokens


def test_a_session_opens_in_the_background_and_shows_its_last_run(window: MainWindow, session_file, wait_until) -> None:
    window.open_paths([str(session_file)])
    wait_until(lambda: window.controller.runs)
    assert {1, 2, 3, 4} <= set(window.controller.runs)
    assert max(window.controller.runs) in window.selection.runs
    window.following.show_run(2)
    assert window.selection.runs == (1, 2)
    assert window.windowTitle() == "scripted.evprof – evprof"
    assert window.timeline.scroll_area.isVisible()


def test_saving_elsewhere_keeps_recording_there(window: MainWindow, wait_until: Wait, tmp_path: Path) -> None:
    start_engine(window, 200.0)
    window.requests.submit(_request("target"))
    wait_until(lambda: window.controller.runs and not window.controller.is_busy)
    saved = tmp_path / "named.evprof"
    window.exporting.write("session", saved)
    wait_until(lambda: window.session.path == saved)
    window.requests.submit(_request("draft"))
    wait_until(lambda: 2 in window.controller.runs and not window.controller.is_busy)
    window.close()
    assert load_session(saved).recording.message_count == 2
    assert list(tmp_path.glob("*-wal")) == []


@pytest.mark.parametrize(
    "export",
    [
        ("chrome", "trace.json"),
        ("csv", "tables"),
    ],
)
def test_exports_are_written_in_the_background(
    window: MainWindow, session_file: Path, wait_until: Wait, tmp_path: Path, export: tuple[str, str]
) -> None:
    kind, name = export
    window.open_paths([str(session_file)])
    wait_until(lambda: window.controller.runs)
    window.exporting.write(kind, tmp_path / name)
    wait_until(lambda: window.messages.shown is not None)
    assert window.messages.shown.sentence == f"Written: {tmp_path / name}"
    assert (tmp_path / name).exists()


def test_nothing_scrolls_sideways_at_1280_by_720(window: MainWindow, session_file, application, wait_until) -> None:
    window.open_paths([str(session_file)])
    wait_until(lambda: window.controller.runs)
    window.following.show_run(3)
    settle(application, window)
    assert (window.width(), window.height()) == (1280, 720)
    for panel in map(window.body.panel, ("left", "right")):
        assert isinstance(panel, QScrollArea)
        assert panel.widget().width() <= panel.viewport().width()
    assert window.timeline.scroll_area.widget().width() <= window.timeline.scroll_area.viewport().width()
    assert window.body.width() <= 1280


def panel_widths(window: MainWindow) -> dict[str, int]:
    """Widths in px of the panels that are in sight."""
    return {dock.objectName(): dock.width() for dock in window.findChildren(QDockWidget) if dock.isVisible()}


def test_layout_and_theme_come_back(themes: ThemeHolder, application: QApplication, tmp_path: Path, keep: Keep) -> None:
    settings = QSettings(str(tmp_path / "evprof.ini"), QSettings.Format.IniFormat)
    first = keep(MainWindow(themes, settings))
    first.resize(880, 640)  # the offscreen screen is not much larger
    first.show()
    application.processEvents()
    first.body.toggle("left")
    first.body.show_panel("left")
    first.body.resizeDocks(first.body.findChildren(QDockWidget, "left"), [190], Qt.Orientation.Horizontal)
    first.actions_by_name["right"].trigger()
    application.processEvents()
    widths = panel_widths(first)
    assert widths == {"left": 190, "timeline": 880 - 190 - 1}
    first.holder.toggle()
    first.close()
    themes.toggle()
    second = keep(MainWindow(themes, settings))
    second.show()
    application.processEvents()
    assert second.holder.theme.name == "light"
    assert (second.width(), second.height()) == (880, 640)
    assert panel_widths(second) == widths


@pytest.mark.parametrize(("theme", "scale"), [("dark", 1.0), ("light", 2.0)])
def test_a_picture_has_the_size_asked_for(session_file: Path, tmp_path: Path, theme: str, scale: float) -> None:
    from PySide6.QtGui import QImage

    out = tmp_path / "window.png"
    save_screenshot([str(session_file)], out, size=(1280, 720), theme=theme, scale=scale)
    picture = QImage(str(out))
    assert (picture.width(), picture.height()) == (round(1280 * scale), round(720 * scale))
    assert (picture.pixelColor(1, 300).lightness() < 128) == (theme == "dark")
