"""What a report says of a machine's pace."""

from __future__ import annotations

from pathlib import Path

import pytest

from evprof.export.report.data import Source, gather
from evprof.export.report.parts import Paragraph, ReportPlot, Table
from evprof.export.report.sections.evidence import pairs_of
from evprof.export.report.sections.runs import drift


@pytest.fixture
def paced(cell_runs):
    """Report data of cells whose total grows by `step` of itself from run to run, a minute apart."""

    def runs_of(first, name, step):
        runs = []
        for place in range(8):
            times = {"vision": 5.0, "prefill": 100.0 * (1 + step * place) + 0.1 * (-1) ** place, "decode": 9.0}
            cell = cell_runs.Cell(name=name, stages=times, samples=1, is_imported=False)
            (run,) = cell.runs(first + place)
            run.info.repeat, run.info.started_at = place, f"2026-01-24T20:{place:02d}:00+00:00"
            runs.append(run)
        return runs

    def make(**steps):
        runs = [run for place, (name, step) in enumerate(steps.items()) for run in runs_of(1 + 100 * place, name, step)]
        return gather([Source(Path("s.evprof"), runs, {}, {})])

    return make


def test_a_large_trend_is_warned_of(paced):
    table, verdict = drift.section(paced(frames=0.05)).blocks
    assert isinstance(table, Table)
    assert isinstance(verdict, Paragraph)
    assert verdict.tone == "warn"
    assert "frames" in verdict.text


def test_a_steady_machine_is_said_to_be(paced):
    table, verdict = drift.section(paced(frames=0.0)).blocks
    assert [row[0].text for row in table.rows] == ["frames"]
    assert verdict.text == "No configuration shows a trend beyond its scatter."


def test_the_course_of_a_reference_row_is_drawn_and_it_forms_no_pair(paced):
    data = paced(one=0.0, two=0.01, reference=0.01)
    assert isinstance(drift.section(data).blocks[-1], ReportPlot)
    assert [(pair.base.cell, pair.other.cell) for pair in pairs_of(data)] == [("one", "two")]
