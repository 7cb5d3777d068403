"""Streams, mailbox and cursors: what is appended is read once, in order, by any number of readers."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.protocols import RunEnded, RunWarned
from evprof.core.recording import RecordLog, Stream
from evprof.core.records import STREAM_OF, STREAMS, TARGET, KvRecord, MemoryRecord, column_kinds


def kv(serial: int) -> KvRecord:
    return KvRecord(1, TARGET, serial, serial * 2, serial * 3)


def test_columns_are_numbers_text_and_bytes():
    assert column_kinds("tokens") == {
        "run_id": "int",
        "role": "str",
        "position": "int",
        "token_id": "int",
        "origin": "str",
        "round_index": "int",
        "t_ns": "int",
        "piece": "str",
    }
    assert column_kinds("frames")["png"] == "bytes"
    assert {kind for stream in STREAMS for kind in column_kinds(stream).values()} == {"int", "str", "bytes"}
    assert {STREAM_OF[kind] for kind in STREAMS.values()} == set(STREAMS)


def test_a_view_stays_what_it_was_while_the_stream_grows():
    stream = Stream("kv")
    stream.extend([kv(serial) for serial in range(200)])
    view = stream.column("length")
    stream.extend([kv(serial) for serial in range(200, 5000)])
    assert view.tolist() == list(range(0, 400, 2))


@given(st.lists(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=400), max_size=8))
def test_rows_come_back_whatever_the_sizes_of_the_appends(pieces):
    stream = Stream("memory")
    for piece in pieces:
        stream.extend([MemoryRecord(1, value, 2, -1) for value in piece])
    flat = [value for piece in pieces for value in piece]
    assert [row.t_ns for row in stream.rows()] == flat
    assert len(stream) == len(flat)


@pytest.mark.parametrize("rows", [[(1, "x", 2, 3, 1 << 63)], [(1, "x", 2, 3)], [(1, "x", 2, 3, 4), (1, "x", 2, 3)]])
def test_rows_that_do_not_fit_leave_the_stream_as_it_was(rows):
    stream = Stream("kv")
    stream.extend([kv(1)])
    with pytest.raises((ValueError, OverflowError)):
        stream.extend(rows)
    stream.extend([kv(2)])
    assert stream.rows() == [kv(1), kv(2)]


def test_each_cursor_reads_everything_once():
    recording = RecordLog()
    early = recording.cursor()
    assert not early.read()
    recording.append(kv(1))
    recording.post(RunWarned(1, "first"))
    news = early.read()
    assert (news.messages, news.ranges) == ([RunWarned(1, "first")], {"kv": (0, 1)})
    recording.extend("kv", [kv(2), kv(3)])
    assert early.read().ranges == {"kv": (1, 3)}
    assert not early.read()
    late = recording.cursor().read()
    assert (late.messages, late.ranges) == ([RunWarned(1, "first")], {"kv": (0, 3)})


def test_who_has_seen_the_end_has_seen_every_row_before_it():
    """A writer appends and ends runs as fast as it can; a reader checks at every end."""
    recording, runs, per_run = RecordLog(), 300, 7

    def write() -> None:
        for run_id in range(runs):
            recording.extend("kv", [kv(run_id * per_run + serial) for serial in range(per_run)])
            recording.post(RunEnded(run_id, "finished"))

    cursor, seen, ended = recording.cursor(), 0, 0
    writer = threading.Thread(target=write)
    writer.start()
    while ended < runs:
        news = cursor.read()
        start, stop = news.ranges.get("kv", (seen, seen))
        assert start == seen
        seen = stop
        ended += len(news.messages)
        assert seen >= ended * per_run
    writer.join()
    assert seen == runs * per_run


def test_readers_never_see_half_a_row():
    """All columns of a row hold the same number; a reader looks while the buffers grow."""
    stream, done = Stream("kv"), threading.Event()

    def write() -> None:
        for serial in range(0, 60_000, 3):
            stream.extend([(each, "x", each, each, each) for each in range(serial, serial + 3)])
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set():
        count = len(stream)
        columns = [stream.column(name, 0, count) for name in ("run_id", "t_ns", "length", "nbytes")]
        expected = np.arange(count)
        assert all(np.array_equal(column, expected) for column in columns)
    writer.join()
    assert len(stream) == 60_000
