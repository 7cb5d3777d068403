"""The foot of the window: device, memory and what recording costs, each from what is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest

from evprof.core.protocols import READY, EngineChanged, RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import TARGET, MemoryRecord
from evprof.core.run_info import RunInfo
from evprof.run.kept_overhead import keep_overhead
from ui.state.run_controller import RunController
from ui.state.selection import Selection
from ui.status.machine_note import MachineNote
from ui.status.status_bar import OBSERVER, StatusBar
from ui.style.theme import ThemeHolder

_MACHINE = "A Processor"


@pytest.fixture
def status(selection: Selection, themes: ThemeHolder) -> Iterator[StatusBar]:
    made = StatusBar(selection, themes)
    made.resize(1400, 26)
    yield made
    made.deleteLater()


@pytest.fixture
def note(
    controller: RunController, status: StatusBar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MachineNote]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    made = MachineNote(controller, status)
    yield made
    made.close()


def _tell(controller: RunController, recording: RecordLog) -> None:
    recording.post(EngineChanged(READY, "", 1, {"device": _MACHINE}))
    controller.pull()


def test_without_a_measurement_no_figure_is_shown_and_a_click_measures(
    note: MachineNote,
    status: StatusBar,
    controller: RunController,
    scripted_recording: RecordLog,
    wait_until: Callable[..., Any],
) -> None:
    clicked: list[str] = []
    status.clicked.connect(clicked.append)
    _tell(controller, scripted_recording)
    wait_until(lambda: "observer effect not measured" in status.text())
    status.grab()
    places = [x for x in range(0, 1400, 4) if status.fact_at(QPoint(x, 13).toPointF()) == OBSERVER]
    QTest.mouseClick(status, Qt.MouseButton.LeftButton, pos=QPoint(places[len(places) // 2], 13))
    assert clicked == [OBSERVER]


def test_what_was_measured_is_shown_with_its_interval(
    note: MachineNote,
    status: StatusBar,
    controller: RunController,
    scripted_recording: RecordLog,
    wait_until: Callable[..., Any],
) -> None:
    summary = {
        "shape": "dispatch-32",
        "pairs": 300,
        "instrumented_vs_off": 1.012,
        "instrumented_vs_off_ci95_low": 1.008,
        "instrumented_vs_off_ci95_high": 1.016,
        "a_vs_a": 1.0,
    }
    keep_overhead({"environment": {"device": _MACHINE, "evprof": "1.0"}, "summary": summary}, "2026-01-02")
    _tell(controller, scripted_recording)
    wait_until(lambda: "observer effect +1.2 % (+0.8 … +1.6 %)" in status.text())


def test_memory_is_what_was_sampled_last(
    note: MachineNote, status: StatusBar, controller: RunController, scripted_recording: RecordLog
) -> None:
    scripted_recording.append(MemoryRecord(4, 10**17, 5 << 30, -1))
    controller.pull()
    assert "5,120.0 MiB" not in status.text(), "a run that is over says nothing of now"
    scripted_recording.post(RunStarted(5, RunInfo(5, 5, 0, TARGET, "target")))
    scripted_recording.append(MemoryRecord(5, 10**18, 3 << 30, 2 << 30))
    controller.pull()
    assert "3,072.0 MiB · GPU 2,048.0 MiB" in status.text()
