"""What was recorded elsewhere, put into a session's Recording: the same rows under other numbers."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.protocols import RequestEnded, RunEnded
from evprof.core.recording import RecordLog
from evprof.core.records import STREAMS
from evprof.core.request import RunRequest
from evprof.core.run_info import FINISHED
from evprof.core.run_log import RunBook
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import ModelChoice
from evprof.run.places.place import Arrival
from evprof.run.processes.channel import QueueSink, apply_part
from scripted_engine import ScriptedEngine

REQUEST = RunRequest(
    "side-by-side", Sample("a.npy", "a.mp4", name="a"), ModelChoice("draft"), ModelChoice("target"), warmup=1, cell="c"
)


@pytest.fixture(scope="module")
def recorded() -> RecordLog:
    """Everything a scripted engine says of a warm-up and a measured pair."""
    import threading

    sink, recording = QueueSink(), RecordLog()
    ScriptedEngine(speed=1000.0).run(REQUEST, sink, threading.Event())
    while parts := sink.take():
        for part in parts:
            apply_part(part, recording)
    return recording


def rows_of(recording: RecordLog, name: str) -> list[tuple]:
    return [tuple(row[1:]) for row in recording.streams[name].rows()]


@given(first=st.integers(1, 2**40), group=st.integers(1, 2**40))
def test_rows_and_messages_arrive_whole_under_their_new_numbers(recorded, first, group):
    arrival = pickle.loads(pickle.dumps(Arrival.of(recorded)))
    there = RecordLog()
    arrival.put_into(there, first, group)
    for name in STREAMS:
        assert rows_of(there, name) == rows_of(recorded, name)
        if len(recorded.streams[name]):
            step = there.streams[name].column("run_id") - recorded.streams[name].column("run_id")
            assert np.unique(step).tolist() == [first - 1]
    assert arrival.row_count == recorded.row_count
    book = RunBook(there)
    book.update()
    assert list(book.runs) == [first, first + 1, first + 2, first + 3]
    assert {(run.info.run_id == run_id, run.info.group_id) for run_id, run in book.runs.items()} == {(True, group)}
    assert [run.info.warmup for run in book.runs.values()] == [True, True, False, False]
    assert all(run.info.status == FINISHED for run in book.runs.values())
    assert RequestEnded(first) in there.messages()


def test_whoever_sees_a_run_end_has_seen_its_rows(recorded):
    there, seen = RecordLog(), []
    post = there.post

    def watch(message):
        if isinstance(message, RunEnded):
            seen.append(there.row_count)
        post(message)

    there.post = watch  # type: ignore[method-assign]
    Arrival.of(recorded).put_into(there, 7, 3)
    assert seen == [recorded.row_count] * 4


def test_a_run_tells_its_place_and_the_sample_as_it_was_asked_for(recorded):
    asked = Sample("/here/a.npy", "/here/a.mp4", name="a")
    there = RecordLog()
    Arrival.of(recorded).told(asked, {"place": "node7 GPU 3"}).put_into(there, 1, 1)
    book = RunBook(there)
    book.update()
    for run in book.runs.values():
        assert run.info.sample == asked
        assert run.info.environment["place"] == "node7 GPU 3"
        assert run.info.environment["device"] == "scripted"
