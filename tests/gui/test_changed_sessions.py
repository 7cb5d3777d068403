"""Another session comes: what was asked of the one before does not reach it, and nothing of it is lost."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QApplication, QInputDialog

from evprof.core.errors import UserError
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.loaders.bundled import bundled_sample
from evprof.run.session_writer import SessionWriter
from evprof.session import opened
from evprof.session.facts import Mark
from evprof.session.opened import open_session
from evprof.session.reading import SessionReading
from ui.runs import run_remarks
from ui.window.main_window import MainWindow
from whole_session import read_session
from window_driver import IdleHost

Wait = Callable[..., None]


@pytest.fixture
def other_file(session_file: Path, tmp_path: Path) -> Path:
    """A second session."""
    return Path(shutil.copy(session_file, tmp_path / "other.evprof"))


def test_a_session_that_was_saved_late_does_not_name_the_next_one(
    window: MainWindow, session_file: Path, other_file: Path, tmp_path: Path, wait_until: Wait
) -> None:
    window.session.read(session_file)
    kept = tmp_path / "kept.evprof"
    window.session.save_as(kept)
    window.session.read(other_file)
    wait_until(lambda: window.messages.shown is not None)
    assert kept.exists()
    assert window.session.path == other_file
    assert window.windowTitle().startswith("other.evprof")


def test_the_rows_on_show_are_read_beside_the_window(window: MainWindow, session_file, wait_until, monkeypatch) -> None:
    asked: list[tuple[int | None, threading.Thread]] = []
    rows = SessionReading.rows

    def noted(self: SessionReading, run_id: int) -> RecordLog:
        asked.append((run_id, threading.current_thread()))
        return rows(self, run_id)

    monkeypatch.setattr(SessionReading, "rows", noted)
    window.session.open(session_file)
    wait_until(lambda: window.selection.runs != (None, None))
    window.grab()
    assert {run_id for run_id, _ in asked} == set(window.selection.runs) - {None}
    assert threading.main_thread() not in {thread for _, thread in asked}


def test_of_sessions_that_are_being_read_the_last_one_asked_for_is_shown(
    window: MainWindow, session_file: Path, other_file: Path, wait_until: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, is_read = opened.open_session, threading.Event()

    def slowly(path: Path) -> Any:
        if path == session_file:
            assert is_read.wait(20)
        return read(path)

    monkeypatch.setattr(opened, "open_session", slowly)
    window.session.open(session_file)
    window.session.open(other_file)
    wait_until(lambda: window.session.path == other_file)
    is_read.set()
    window.session.wait()
    wait_until(lambda: window.session.is_idle)
    QApplication.processEvents()
    assert window.session.path == other_file


@pytest.mark.parametrize("field", ["name", "note"])
def test_what_is_typed_about_a_run_is_not_said_of_another_session(
    window: MainWindow, session_file: Path, other_file: Path, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    window.open_paths([str(session_file)], waits=True)

    def typed(*_: Any, **__: Any) -> str:
        window.open_paths([str(other_file)], waits=True)
        return "mine"

    monkeypatch.setattr(QInputDialog, "getText", lambda *_, **__: (typed(), True))
    monkeypatch.setattr(run_remarks, "ask_long_text", typed)
    remarks = window.runs.remarks
    (remarks.ask_name if field == "name" else remarks.ask_note)([1])
    assert window.session.path == other_file
    assert getattr(window.controller.runs[1].info, field) == ""
    assert window.messages.shown.sentence.startswith("Another session was opened")


def test_what_was_deleted_is_not_brought_back_in_another_session(
    window: MainWindow, session_file: Path, other_file: Path
) -> None:
    window.session.read(session_file)
    mark = Mark(4, 1_000_000, 1_000_000)
    window.controller.marks.add(mark)
    window.controller.marks.delete(mark)
    window.runs.remarks.delete([4])
    window.session.read(other_file)
    for _ in range(3):
        window.messages.act()
    assert window.controller.marks.marks == []
    assert window.messages.shown is None


def test_runs_that_wait_are_not_lost_to_another_session(window: MainWindow, session_file: Path) -> None:
    """Long work goes on; what waits for it was asked of the session on show."""
    window.controller.attach_host(IdleHost())
    window.controller.hold(True)
    window.toolbar.run()
    assert len(window.controller.waiting) == 1
    with pytest.raises(UserError, match="wait in the queue"):
        window.session.read(session_file)
    window.session.start_new()
    assert len(window.controller.waiting) == 1
    assert "wait in the queue" in window.messages.shown.sentence
    window.controller.remove_waiting(window.controller.waiting[0])
    window.session.read(session_file)
    assert 4 in window.controller.runs


def test_a_session_that_another_window_records_is_not_written(
    window: MainWindow, session_file: Path, tmp_path: Path, wait_until: Wait
) -> None:
    asked: list[RunRequest] = []
    host = IdleHost()
    host.submit = asked.append  # type: ignore[method-assign,assignment]  # notes what is asked of the engine
    window.controller.attach_host(host)
    with SessionWriter(read_session(session_file), session_file, skips_existing=True) as other:
        other.claim()
        window.session.read(session_file)
        window.show_sample(bundled_sample())
        window.toolbar.run()
        assert "under another name" in window.messages.shown.sentence
        assert not asked
        own = tmp_path / "own.evprof"
        window.session.save_as(own)
        wait_until(lambda: window.session.path == own)
        window.toolbar.run()
        assert len(asked) == 1
    window.session.close()
    assert set(open_session(own).runs) == {1, 2, 3, 4}
