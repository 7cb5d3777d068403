"""Waiting never looks like emptiness: what goes on is said in the empty areas, on Run and in the status bar."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evprof.core.protocols import EngineChanged, RunStarted
from evprof.core.run_info import RunInfo
from evprof.session import opened
from ui.window.main_window import MainWindow
from window_driver import IdleHost

Wait = Callable[..., Any]


def said(window: MainWindow) -> list[str]:
    """What the empty areas say, the status bar, and the reason on the toolbar."""
    empty = window.timeline.empty.state.words[0], window.runs._empty.words[0]
    return [*empty, window.status.text(), window.toolbar.hint.text()]


def test_opening_a_session_says_so_everywhere(window: MainWindow, session_file, monkeypatch, wait_until) -> None:
    may_go_on = threading.Event()
    read = opened.open_session
    monkeypatch.setattr(opened, "open_session", lambda path: may_go_on.wait(60) and read(path))
    window.session.open(session_file)
    assert all(f"Opening {session_file.name} …" in text for text in (*said(window)[:2], said(window)[3]))
    assert f"Opening {session_file.name}" in window.status.text()
    assert not window.toolbar.run_button.isEnabled()
    assert window.timeline.empty.button.isHidden()
    may_go_on.set()
    wait_until(lambda: window.controller.runs)
    assert not any("Opening" in text for text in said(window))
    assert window.toolbar.problem == window.toolbar.form.problem


def test_a_file_that_cannot_be_opened_leaves_nothing_waiting(window: MainWindow, tmp_path, wait_until) -> None:
    window.session.open(tmp_path / "gone.evprof")
    wait_until(lambda: window.messages.shown is not None and not window.activity.text)
    assert window.timeline.empty.state.words[0] == "Nothing has been measured yet"


def test_a_run_says_that_the_engine_starts_first(window: MainWindow) -> None:
    recording = window.session.recording
    host = IdleHost()
    host.is_busy = True
    window.controller.attach_host(host)
    window.toolbar.run()
    name = window.toolbar.sample.name
    assert said(window)[0] == f"Starting the engine, then Side by side · {name} …"
    assert window.toolbar.run_button.text() == "Queue"
    assert "Starting the engine" in window.toolbar.run_button.toolTip()
    recording.post(EngineChanged("ready", "", 1, {}))
    host.is_busy = False
    window.controller.pull()
    assert said(window)[0] == f"Loading the models, then Side by side · {name} …"
    recording.post(RunStarted(1, RunInfo(1, 1, 0, "draft", "side-by-side", sample=window.toolbar.sample)))
    window.controller.pull()
    assert not window.activity.text
    window.controller._host = None


def test_a_suite_says_how_far_it_is_where_runs_would_be(window: MainWindow) -> None:
    work = "Measure a suite · stages · 3 of 8 rows"
    window.long_work._show_text(work, 0.4)
    assert said(window)[:2] == [f"{work} …"] * 2
    assert window.status.text().count(work) == 1
    assert window.toolbar.run_button.text() == "Queue"
    window.long_work._show_text("", None)
    assert work not in " ".join(said(window))


def test_a_file_that_is_being_imported_is_not_imported_again(
    window: MainWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_until: Wait
) -> None:
    may_go_on, calls = threading.Event(), []

    def imported(paths: Any, session: Path, note: Any) -> None:
        calls.append(paths)
        note(paths[0], 1_200, 4_440)
        may_go_on.wait(60)

    monkeypatch.setattr("ui.window.exporting._imported", imported)
    path = tmp_path / "results.json"
    window.results.take([path])
    wait_until(lambda: "Importing results.json: 1,200 of 4,440 rows …" in said(window)[0])
    window.results.take([path])
    assert window.messages.shown.sentence == "results.json is being imported already."
    may_go_on.set()
    wait_until(lambda: not window.activity.text)
    assert len(calls) == 1
