"""The report's section on loading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evprof.core.protocols import RunEnded, RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import BEGIN, SETTLED, SpanRecord
from evprof.core.run_info import LoadingFacts, RunInfo
from evprof.core.run_log import RunBook, RunLog
from evprof.core.sample import Sample
from evprof.export.report.data import ReportData, Source, gather
from evprof.export.report.parts import Table
from evprof.export.report.sections.times import loading

MS = 1_000_000
ZERO = 10**12


def run_of(recording: RecordLog, run_id: int, cell: str, facts: LoadingFacts | None, parts: dict[str, float]) -> None:
    """A run whose load is `parts` one after the other, and whose wall is 100 ms."""
    info = RunInfo(run_id, run_id, run_id, "target", "target", sample=Sample(name="s"), start_ns=ZERO, cell=cell)
    info.loading = {} if facts is None else {"target": facts}
    recording.post(RunStarted(run_id, info))
    spans = [(0, -1, "load", 0.0, sum(parts.values()))]
    at = 0.0
    for number, (name, spent) in enumerate(parts.items(), start=1):
        spans.append((number, 0, name, at, at + spent))
        at += spent
    for span_id, parent, name, start, end in spans:
        times = ZERO + int(start * MS), ZERO + int(end * MS)
        recording.append(SpanRecord(run_id, span_id, parent, BEGIN, "target", name, times[0], -1))
        recording.append(SpanRecord(run_id, span_id, parent, SETTLED, "target", name, *times))
    recording.post(RunEnded(run_id, "finished", None, {"end_ns": ZERO + 100 * MS}))


@pytest.fixture
def data() -> ReportData:
    recording = RecordLog()
    film = LoadingFacts(2 << 20, 1 << 20, frames=8, decoder="pyav")
    run_of(recording, 1, "video", film, {"open": 1, "demux": 1, "decode": 30, "colour": 8})
    run_of(recording, 2, "video", film, {"open": 1, "demux": 1, "decode": 32, "colour": 6})
    kept = LoadingFacts(4 << 20, 0, frames=8, decoder="pyav", frame_cache="hit")
    run_of(recording, 3, "kept", kept, {"frame cache": 4})
    run_of(recording, 4, "events", LoadingFacts(1 << 20, 0, events=50_000, decoder="evt3"), {"open": 1, "read": 4})
    return report(recording)


def report(recording: RecordLog) -> ReportData:
    book = RunBook(recording)
    book.update()
    runs: list[RunLog] = list(book.runs.values())
    return gather([Source(Path("s.evprof"), runs, {}, {})])


def texts(table: Any) -> list[list[str]]:
    assert isinstance(table, Table)
    return [[cell.text for cell in row] for row in table.rows]


def test_what_was_read_from_where_and_how_fast(data: ReportData) -> None:
    reads, parts = loading(data)
    assert texts(reads) == [
        ["video", "pyav", "8 frames", "2.00 MiB", "1.00 MiB", "200.0 ± 0 frames/s", "40.00 ± 0", "40.0 %"],
        ["kept", "pyav, frame cache hit", "8 frames", "4.00 MiB", "0 B", "2,000 frames/s", "4.000", "4.0 %"],
        ["events", "evt3", "50,000 events", "1.00 MiB", "0 B", "10.00 M events/s", "5.000", "5.0 %"],
    ]
    assert isinstance(parts, Table)
    assert parts.heads == ("configuration", "open", "demux", "decode", "colour", "frame cache", "read")
    shown = texts(parts)
    assert shown[0][3] == "31.0 ± 1.4"
    assert shown[1][1:5] == [""] * 4
    assert shown[2][6] == "4.000"
