"""Energy and power in tables, traces and reports."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from evprof.core.run_log import RunBook, RunLog
from evprof.export.report.data import Source, gather
from evprof.export.report.sections.memory import energy
from evprof.view.lanes import power_line
from exported import chrome_trace, tables
from fake_nvml import powered_recording
from report_blocks import said
from report_blocks import tables as tables_of


@pytest.fixture
def runs() -> list[RunLog]:
    book = RunBook(powered_recording())
    book.update()
    return list(book.runs.values())


def test_every_sample_is_a_row_and_what_was_not_told_is_empty(runs: list[RunLog]) -> None:
    quiet, hot = tables(runs)["runs"]
    runs[0].power["cuda:0"][0] = runs[0].power["cuda:0"][0]._replace(energy_uj=-1, busy_percent=-1)
    rows = tables(runs)["power"]
    assert len(rows) == sum(len(run.power["cuda:0"]) for run in runs)
    first = rows[0]
    assert (first["device"], first["time_ms"], first["power_mw"], first["sm_mhz"]) == ("cuda:0", -20.0, 80_000, 345)
    assert first["energy_uj"] is first["busy_percent"] is None
    assert (quiet["throttled"], hot["throttled"]) == (False, True)
    assert quiet["energy_per_answer_j"] == pytest.approx(1187.2)
    assert quiet["peak_power_w"] == 610


def test_power_is_a_counter_track_of_the_trace(runs: list[RunLog]) -> None:
    counted = [entry for entry in chrome_trace(runs[:1])["traceEvents"] if entry["name"] == "power cuda:0"]
    times, watts = power_line(runs[0].power["cuda:0"])
    # The first sample lies before the run's zero.
    assert [entry["args"]["watts"] for entry in counted] == watts[1:].tolist()
    assert {entry["ph"] for entry in counted} == {"C"}
    gaps_us = [later["ts"] - sooner["ts"] for sooner, later in itertools.pairwise(counted)]
    assert gaps_us == pytest.approx([gap / 1000 for gap in times[2:] - times[1:-1]])


def test_the_report_tells_energy_and_which_runs_were_slowed_down(runs: list[RunLog]) -> None:
    found = energy(gather([Source(Path("s.evprof"), runs)]))
    figures, stages = tables_of(found)
    assert [row[-1].text for row in figures.rows] == ["0 of 1 runs", "1 of 1 runs"]
    assert figures.rows[0][2].text == "1,187 J"
    assert stages.heads == ("configuration", "load", "preprocess", "vision", "prefill", "decode", "unattributed")
    assert "thermal slowdown" in said(found)
