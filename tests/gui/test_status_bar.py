"""The foot of the window: engine, runs, memory, queue and session."""

from __future__ import annotations

import pytest

from evprof.core.protocols import READY, EngineChanged, RunStarted, SetupProgressed
from evprof.core.records import TARGET, MemoryRecord
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunLog
from kept import Keep
from ui.state.selection import Selection, TimeRange
from ui.status.status_bar import StatusBar
from ui.style.theme import ThemeHolder


@pytest.fixture
def status(selection: Selection, themes: ThemeHolder, keep: Keep) -> StatusBar:
    return keep(StatusBar(selection))


def test_the_engine_and_its_runs_are_followed(status: StatusBar, selection: Selection) -> None:
    status.take(EngineChanged(READY, "", 1, {"device": "A Processor"}))
    assert status.text() == "engine ready · A Processor"
    status.take(SetupProgressed(1, TARGET, 1 << 20, 4 << 20))
    assert "loading target weights  1.00 MiB of 4.00 MiB" in status.text()
    status.take(RunStarted(1, RunInfo(1, 1, 0, TARGET, "target")))
    assert status.text() == "running · A Processor      run 1 · target"
    selection.select(TimeRange(2_000_000, 5_000_000))
    status.set_session("a.evprof")
    status.show_waiting(2)
    assert status.text().endswith("range 2.000 ms – 5.000 ms · 3.000 ms   2 runs wait   a.evprof")
    clicked: list[bool] = []
    status.queue_asked.connect(lambda: clicked.append(True))
    status._waiting.click()
    assert clicked


def test_memory_is_the_newest_sample_of_a_run_that_goes_on(status: StatusBar, runs: dict[int, RunLog]) -> None:
    runs[4].absorb(MemoryRecord(4, 10**17, 5 << 30, -1))
    status.show_memory(runs[4])
    assert "MiB" not in status.text()
    live = RunLog(RunInfo(5, 5, 0, TARGET, "target"))
    live.absorb(MemoryRecord(5, 10**18, 3 << 30, 2 << 30))
    status.show_memory(live)
    assert "3,072.0 MiB · GPU 2,048.0 MiB" in status.text()
