"""Runs put together one at a time are the runs that a RunBook puts together at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from evprof.core.messages import RunEnded, RunStarted
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.run_book import RunBook
from evprof.core.run_info import RunInfo
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import ModelChoice
from evprof.export.stored_runs import StoredRuns
from evprof.metrics.document import run_document
from scripted_engine import ScriptedEngine
from scripted_pair import Script


@pytest.fixture(scope="module")
def recording() -> RecordLog:
    found = RecordLog()
    engine = ScriptedEngine(Script(), speed=50.0)
    request = RunRequest("side-by-side", Sample("e.npy", "v.mp4"), ModelChoice("draft"), ModelChoice("target"))
    for mode, first in (("speculative", 5), ("side-by-side", 2)):
        engine.run(replace(request, mode=mode, first_run_id=first, group_id=first), found, threading.Event())
    return found


def test_they_are_those_of_a_book_in_order_of_their_numbers(recording: RecordLog) -> None:
    book = RunBook(recording)
    book.update()
    stored = StoredRuns(recording)
    assert len(stored) == 3
    assert [run.run_id for run in stored] == [2, 3, 5]
    for run in stored:
        known = book.runs[run.run_id]
        assert run.info == known.info
        assert run.spans == known.spans
        assert (run.tokens, run.rejected, run.rounds) == (known.tokens, known.rejected, known.rounds)
        assert (run.kv, run.memory, run.frames) == (known.kv, known.memory, known.frames)
        assert run_document(run) == run_document(known)
    assert [run.run_id for run in reversed(stored)] == [5, 3, 2]
    assert [run.run_id for run in stored[1:]] == [3, 5]


def test_a_deleted_run_is_shown_to_no_reader() -> None:
    found = RecordLog()
    for run_id in (1, 2):
        found.post(RunStarted(run_id, RunInfo(run_id, 1, 0, "target", "target", is_deleted=run_id == 1)))
    assert [run.run_id for run in StoredRuns(found)] == [2]


def test_rows_of_runs_that_took_turns(build_span: Callable[..., object]) -> None:
    """Runs on two devices at once leave their rows in turns."""
    found = RecordLog()
    for run_id in (1, 2):
        found.post(RunStarted(run_id, RunInfo(run_id, 1, 0, "target", "target")))
    for place in range(6):
        build_span(found, 1 + place % 2, place)
    found.post(RunEnded(2, "failed", "why", {"text": "half"}))
    first, second = StoredRuns(found)
    assert list(first.spans) == [0, 2, 4]
    assert list(second.spans) == [1, 3, 5]
    assert (second.info.status, second.info.error, second.info.text) == ("failed", "why", "half")
    # What was told stays as it was told.
    started = [message for message in found.messages() if isinstance(message, RunStarted)]
    assert [message.info.status for message in started] == ["running", "running"]


@pytest.fixture
def build_span() -> Callable[..., object]:
    from evprof.core.records import SETTLED, SpanRecord

    def build(recording: RecordLog, run_id: int, span_id: int) -> None:
        recording.append(SpanRecord(run_id, span_id, -1, SETTLED, "target", "load", span_id, span_id + 1))

    return build


def test_only_the_kept_ones_are_left(recording: RecordLog) -> None:
    stored = StoredRuns(recording)
    stored.keep(stored.infos[:1])
    assert [run.run_id for run in stored] == [2]
    assert len(stored) == 1


def test_nothing_recorded_is_no_run() -> None:
    assert list(StoredRuns(RecordLog())) == []


def test_a_session_is_read_as_a_source(recording: RecordLog, tmp_path: Path) -> None:
    from evprof.export.stored_runs import stored_source
    from evprof.session.store import Commit, SessionFile

    book = RunBook(recording)
    book.update()
    path = tmp_path / "s.evprof"
    store = SessionFile(path)
    ranges = {name: (0, len(stream)) for name, stream in recording.streams.items() if len(stream)}
    infos = [run.info for run in book.runs.values()]
    store.commit(recording.streams, Commit(ranges=ranges, infos=infos, facts={"suite": {"name": "shapes"}}))
    store.close()
    source, runs = stored_source(path)
    assert source.name == str(path)
    assert source.facts == {"suite": {"name": "shapes"}}
    assert [run_document(run) for run in runs] == [run_document(book.runs[number]) for number in (2, 3, 5)]
