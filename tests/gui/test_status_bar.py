"""The foot of the window: memory of the engine."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from evprof.core.protocols import RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import TARGET, MemoryRecord
from evprof.core.run_info import RunInfo
from ui.state.run_controller import RunController
from ui.state.selection import Selection
from ui.status.status_bar import StatusBar, show_memory
from ui.style.theme import ThemeHolder


@pytest.fixture
def status(selection: Selection, themes: ThemeHolder) -> Iterator[StatusBar]:
    made = StatusBar(selection, themes)
    made.resize(1400, 26)
    yield made
    made.deleteLater()


def test_memory_is_what_was_sampled_last(
    status: StatusBar, controller: RunController, scripted_recording: RecordLog
) -> None:
    controller.runs_changed.connect(partial(show_memory, status, controller))
    scripted_recording.append(MemoryRecord(4, 10**17, 5 << 30, -1))
    controller.pull()
    assert "5,120.0 MiB" not in status.text(), "a run that is over says nothing of now"
    scripted_recording.post(RunStarted(5, RunInfo(5, 5, 0, TARGET, "target")))
    scripted_recording.append(MemoryRecord(5, 10**18, 3 << 30, 2 << 30))
    controller.pull()
    assert "3,072.0 MiB · GPU 2,048.0 MiB" in status.text()
