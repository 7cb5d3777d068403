"""A session as the scripted engine leaves it, and a speculative run with everything in it, built record by record."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

import cell_runs
from evprof.core.protocols import RunEnded, RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import (
    BEGIN,
    END,
    SETTLED,
    FrameRecord,
    KvRecord,
    MemoryRecord,
    Record,
    RoundRecord,
    SpanRecord,
    TensorRecord,
    TokenRecord,
)
from evprof.core.request import RunRequest
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunBook, RunLog
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import ModelChoice
from evprof.export.report.data import ReportData
from report_blocks import data_of_cells
from scripted_engine import ScriptedEngine
from scripted_pair import Script
from told import TINY_MODEL, told

ZERO = 123_456_789_000_000_001
US = 1_000


def run_info(run_id: int, start_ns: int | None = ZERO) -> RunInfo:
    return RunInfo(
        run_id=run_id,
        group_id=run_id,
        repeat=0,
        role="target",
        mode="speculative",
        **told({}, {}),
        start_ns=start_ns,
        models={"target": TINY_MODEL},
    )


def span(  # noqa: PLR0917 - a table of spans reads best without names
    run_id: int, span_id: int, parent: int, role: str, name: str, start_us: int, end_us: int
) -> list[Record]:
    """Begin and settled records of one span, times in µs after the zero."""
    start, end = ZERO + start_us * US, ZERO + end_us * US
    return [
        SpanRecord(run_id, span_id, parent, BEGIN, role, name, start, -1),
        SpanRecord(run_id, span_id, parent, SETTLED, role, name, start, end),
    ]


def speculative_records(run_id: int) -> list[Record]:
    """Nine settled spans, one ended, one open; two rounds; tokens, caches, memory and a picture."""
    records: list[Record] = [
        *span(run_id, 0, -1, "draft", "load", 0, 10),
        *span(run_id, 1, -1, "target", "load", 10, 30),
        *span(run_id, 2, -1, "target", "vision", 30, 60),
        *span(run_id, 3, 2, "target", "tower", 30, 50),
        *span(run_id, 4, 2, "target", "projector", 50, 60),
        *span(run_id, 5, -1, "target", "decode", 60, 200),
        *span(run_id, 6, 5, "draft", "draft", 60, 80),
        *span(run_id, 7, 5, "target", "verify", 80, 100),
        # Device times may cut across their parent by a hair.
        *span(run_id, 8, 5, "target", "verify", 190, 201),
        SpanRecord(run_id, 9, -1, BEGIN, "target", "decode", ZERO + 300 * US, -1),
        SpanRecord(run_id, 9, -1, END, "target", "decode", ZERO + 300 * US, ZERO + 310 * US),
        SpanRecord(run_id, 10, 9, BEGIN, "target", "verify", ZERO + 305 * US, -1),
        TensorRecord(run_id, 2, "in", "pixel_values", "8,3,64,64", "float32", 393_216),
        TensorRecord(run_id, 2, "out", "features", "8,17,32", "float32", 17_408),
        TensorRecord(run_id, 2, "out", "features", "8,17,32", "float32", 17_408),
    ]
    for index, accepted in ((0, 1), (1, 2)):
        start = ZERO + (60 + 45 * index) * US
        records.append(
            RoundRecord(run_id, index, start, 20 * US, 20 * US, 333, 2, accepted, accepted + 1, "5,6", index)
        )
    pieces = [
        (" a", "target", -1),
        ('\x01"<', "accepted", 0),
        ("b", "bonus", 0),
        ("", "accepted", 1),
        (" é", "bonus", 1),
    ]
    for position, (piece, origin, index) in enumerate(pieces):
        at = ZERO + (70 + position) * US
        records.append(TokenRecord(run_id, "target", position, 100 + position, origin, index, at, piece))
    records.append(TokenRecord(run_id, "draft", 2, 77, "rejected", 0, ZERO + 72 * US, " no"))
    for role in ("draft", "target"):
        records += [KvRecord(run_id, role, ZERO + at * US, 10 + at, 640 + at) for at in (60, 100, 150)]
    records.append(MemoryRecord(run_id, ZERO + 50 * US, 10_000, -1))
    records.append(MemoryRecord(run_id, ZERO + 90 * US, 11_000, 500))
    records.append(FrameRecord(run_id, "target", 0, 0, 0, "0.0 ms", b"\x89PNG"))
    return records


MakeData = Callable[..., ReportData]


@pytest.fixture
def report_data() -> MakeData:
    """The data of a session that holds these cells' runs."""
    return data_of_cells


@pytest.fixture
def published(report_data: MakeData) -> ReportData:
    """Document 002's two configurations, as its file gives them."""
    return report_data(cell_runs.DRAFT_002, cell_runs.TARGET_002)


BuildRuns = Callable[..., list[RunLog]]


@pytest.fixture
def build_runs() -> BuildRuns:
    """Makes RunLogs from (info, records) pairs, ended as finished."""

    def build(*runs: tuple[RunInfo, list[Record]]) -> list[RunLog]:
        recording = RecordLog()
        for info, records in runs:
            recording.post(RunStarted(info.run_id, info))
            for record in records:
                recording.append(record)
            recording.post(RunEnded(info.run_id, "finished", None, {"text": "a b"}))
        book = RunBook(recording)
        book.update()
        return list(book.runs.values())

    return build


@pytest.fixture
def speculative_run(build_runs: BuildRuns) -> RunLog:
    """The run with everything in it."""
    return build_runs((run_info(3), speculative_records(3)))[0]


@pytest.fixture
def unborn_run(build_runs: BuildRuns) -> RunLog:
    """A run that never began: no zero, but a few records."""
    return build_runs(
        (run_info(4, start_ns=None), [KvRecord(4, "target", 5, 1, 8), *span(4, 0, -1, "target", "load", 1, 2)])
    )[0]


@pytest.fixture(scope="session")
def runs() -> list[RunLog]:
    """Three runs."""
    recording = RecordLog()
    engine = ScriptedEngine(Script(), speed=50.0)
    request = RunRequest("side-by-side", Sample("e.npy", "v.mp4"), ModelChoice("draft"), ModelChoice("target"))
    for mode, first in (("side-by-side", 1), ("speculative", 3)):
        engine.run(replace(request, mode=mode, first_run_id=first, group_id=first), recording, threading.Event())
    book = RunBook(recording)
    book.update()
    return list(book.runs.values())
