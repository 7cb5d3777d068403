"""Sessions of killed programs in the window: told once, opened or removed from a list."""

from __future__ import annotations

from pathlib import Path

import pytest

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


def test_they_are_told_and_one_is_opened_and_one_removed(application, window, killed, wait_until) -> None:
    def happens(condition) -> None:
        wait_until(lambda: application.processEvents() or condition())

    window.abandoned.look()
    happens(lambda: window.messages.shown is not None)
    assert "2 programs ended without closing" in window.messages.shown.sentence
    window.messages.act()
    dialog = window.abandoned.dialog
    assert dialog.list.count() == 2
    removed = dialog.chosen
    dialog.discard_button.click()
    assert not removed.exists()
    [left] = [path for path in killed if path != removed]
    assert dialog.chosen == left
    dialog.open_button.click()
    happens(lambda: window.session.path == left)
    assert abandoned() == []
