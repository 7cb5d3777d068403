"""A run's warnings in the window: at once above the views, and later wherever the run is looked at."""

from __future__ import annotations

from pathlib import Path

from evprof.core.protocols import RunEnded, RunStarted, RunWarned
from evprof.core.recording import RecordLog
from evprof.core.run_info import FINISHED, RunInfo
from evprof.core.sample import Sample
from evprof.run.session_writer import SessionWriter
from ui.window.main_window import MainWindow

LONG = "Prompt (4,600) and answer (up to 128 tokens) can pass the 4,096 positions llava-1.5-7b-hf was trained for."
HOT = "The GPU was slowed down by power cap (at 1,980 MHz and 1,200 MHz); its times are not what it can do."


def warned(recording: RecordLog) -> None:
    """A run that is warned about while it runs and at its end."""
    info = RunInfo(1, 1, 0, "target", "target", sample=Sample(prompt="?"))
    recording.post(RunStarted(1, info))
    recording.post(RunWarned(1, LONG))
    recording.post(RunWarned(1, HOT))
    recording.post(RunEnded(1, FINISHED, None, {"end_ns": 2, "start_ns": 1}))


def test_warnings_stand_above_the_views_until_they_are_dismissed(window: MainWindow) -> None:
    warned(window.session.recording)
    window.controller.pull()
    assert window.messages.isVisible()
    assert (window.messages.shown.kind, window.messages.shown.sentence) == ("warn", f"Run 1: {HOT}")
    window.messages.dismiss()
    assert window.messages.shown.sentence == f"Run 1: {LONG}"
    window.messages.dismiss()
    assert not window.messages.isVisible()


def test_warnings_stay_with_the_run(window: MainWindow, tmp_path: Path) -> None:
    """In a session opened later: nothing is called out, and the run still says so."""
    recording = RecordLog()
    warned(recording)
    path = tmp_path / "warned.evprof"
    SessionWriter(recording, path).close()
    window.open_paths([str(path)], waits=True)
    window.controller.pull()
    window.selection.set_runs(1, None)
    (said,) = [section for section in window.inspector.sections if section.head == "Warnings"]
    assert said.note.splitlines() == [LONG, HOT]
    line = next(line for line in window.runs.list.lines if LONG in line.tip)
    assert HOT in line.tip
