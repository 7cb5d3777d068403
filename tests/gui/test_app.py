"""`run_window` from start to end: the engine starts after the first paint, the demo runs, the session is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QEvent, QSettings, QTimer
from PySide6.QtWidgets import QApplication

from evprof.core.run_info import FINISHED
from evprof.run.processes.engine_host import EngineHost
from scripted_process import engine_argv
from ui.players.picture_feed import PictureFeed
from ui.window.app import run_window
from ui.window.main_window import MainWindow
from whole_session import load_session


@pytest.fixture
def own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Settings and sessions of this test alone."""
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    QSettings.setPath(QSettings.Format.NativeFormat, QSettings.Scope.UserScope, str(tmp_path))
    return tmp_path


def _window(application: QApplication) -> MainWindow | None:
    return next((widget for widget in application.topLevelWidgets() if isinstance(widget, MainWindow)), None)


def _run(application: QApplication, is_done: Callable[[MainWindow], bool], **options: object) -> list[str]:
    """Runs the window until `is_done`, closes it, and tells in which order things happened."""
    order: list[str] = []
    waited = QTimer()

    def look() -> None:
        window = _window(application)
        if window is not None and is_done(window):
            waited.stop()
            window.close()

    waited.timeout.connect(look)
    waited.start(20)
    QTimer.singleShot(40_000, application, application.quit)
    start = EngineHost.start

    def started(host: EngineHost) -> None:
        window = _window(application)
        order.append("engine after paint" if window is not None and window._is_painted else "engine before paint")
        start(host)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EngineHost, "start", started)
        code = run_window([], engine_argv=engine_argv("script:100"), **options)  # type: ignore[arg-type]  # options are run_window's own
    order.append(f"code {code}")
    for widget in application.topLevelWidgets():
        if isinstance(widget, MainWindow):
            widget.deleteLater()
    application.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    return order


def test_the_demo_runs_in_the_window_and_is_kept(application: QApplication, own_folders: Path) -> None:
    def is_done(window: MainWindow) -> bool:
        runs = window.controller.runs.values()
        return len(runs) == 18 and all(run.info.is_over for run in runs) and not window.controller.is_busy

    assert _run(application, is_done, demo=True, size=(900, 600)) == ["engine after paint", "code 0"]
    (saved,) = own_folders.rglob("*.evprof")
    infos = [message.info for message in load_session(saved).recording.messages() if hasattr(message, "info")]
    assert {info.status for info in infos} == {FINISHED}
    assert [(info.mode, info.warmup) for info in infos[:3]] == [*[("side-by-side", True)] * 2, ("speculative", True)]
    turns = Counter((info.turn.number, info.mode, info.group_id) for info in infos[3:])
    groups = {info.mode: info.group_id for info in infos}
    counts = (("side-by-side", 2), ("speculative", 1))
    assert turns == {(number, mode, groups[mode]): count for number in range(5) for mode, count in counts}
    assert len(set(groups.values())) == 2


def test_without_a_run_no_session_is_left(application: QApplication, own_folders: Path) -> None:
    order = _run(application, lambda window: "ready" in window.status.text(), theme="light")
    assert order == ["engine after paint", "code 0"]
    assert list(own_folders.rglob("*.evprof")) == []


def test_no_file_is_opened_before_it_is_said_who_decodes_videos(application, own_folders: Path, monkeypatch) -> None:
    seen: list[str] = []
    want = PictureFeed.want

    def note(feed: PictureFeed, *given: Any) -> None:
        seen.append("picture")
        want(feed, *given)

    monkeypatch.setattr(PictureFeed, "want", note)
    _run(application, lambda _: "picture" in seen, demo=True, before_files=lambda: seen.append("before files"))
    assert seen[:2] == ["before files", "picture"]
