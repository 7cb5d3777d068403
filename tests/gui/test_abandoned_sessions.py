"""Sessions of killed programs in the window."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtWidgets import QFileDialog

from evprof.core.protocols import RunEnded, RunStarted
from evprof.core.recording import RecordLog
from evprof.core.run_info import RunInfo
from evprof.run.session_writer import SessionWriter
from evprof.session.autosave import abandoned, autosave_folder


@pytest.fixture
def killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two autosaved sessions as killed programs leave them."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    autosave_folder().mkdir(parents=True)
    paths = [autosave_folder() / f"{name}.evprof" for name in ("one", "two")]
    for path in paths:
        recording = RecordLog()
        with SessionWriter(recording, path):
            recording.post(RunStarted(1, RunInfo(1, 1, 0, "draft", "draft")))
            recording.post(RunEnded(1, "finished"))
        path.with_name(path.name + "-lock").touch()
    return paths


def test_they_are_told_and_one_is_opened(application, window, killed, wait_until, monkeypatch) -> None:
    window.abandoned.look()
    wait_until(lambda: window.messages.shown is not None)
    assert "closed unexpectedly 2 times" in window.messages.shown.sentence
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(killed[0]), ""))
    window.messages.act()
    wait_until(lambda: window.session.path == killed[0])
    assert [one.path for one in abandoned()] == killed[1:]


def test_they_are_among_the_cards_of_the_start_page(window, killed, wait_until) -> None:
    window.welcome.open()
    sessions = window.welcome.page.sessions
    wait_until(sessions.count)
    texts = [sessions.item(row).text().split(" · ")[0] for row in range(sessions.count())]
    assert texts[:2] == ["recovered session"] * 2
    window.welcome.page.session_chosen.emit(str(killed[1]))
    wait_until(lambda: window.session.path == killed[1])
    assert [one.path for one in abandoned()] == killed[:1]
