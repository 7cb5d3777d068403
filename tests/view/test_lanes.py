"""Tracks take in a growing run step by step and end up where reading it at once would."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.protocols import RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import (
    BEGIN,
    DRAFT,
    END,
    SETTLED,
    STAGES,
    TARGET,
    KvRecord,
    MemoryRecord,
    SpanRecord,
    TokenRecord,
)
from evprof.core.request import RunRequest
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunBook
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import ModelChoice
from evprof.view.columns import ShownModel, columns_of, pair_for
from evprof.view.decimate import merged_bars
from evprof.view.labels import model_title, stage_labels, widest_that_fits
from evprof.view.lanes import PROVISIONAL, RUNNING, Track
from evprof.view.lanes import SETTLED as SETTLED_STATE
from evprof.view.timescale import Timescale
from scripted_engine import ScriptedEngine

MS = 1_000_000


@pytest.fixture
def recording() -> RecordLog:
    made = RecordLog()
    made.post(RunStarted(1, RunInfo(1, 1, 0, TARGET, "target")))
    return made


def _track(recording: RecordLog) -> tuple[RunBook, Track]:
    book = RunBook(recording)
    book.update()
    return book, Track(ShownModel(book.runs[1], TARGET))


def test_a_span_is_running_then_provisional_then_settled(recording: RecordLog) -> None:
    book, track = _track(recording)
    recording.append(SpanRecord(1, 0, -1, BEGIN, TARGET, "load", 100 * MS, -1))
    book.update()
    track.update()
    row = track.stages.rows(track.zero_ns, 130 * MS)
    assert (row.starts.tolist(), row.ends.tolist(), row.states.tolist()) == ([0], [30 * MS], [RUNNING])
    assert track.stages.has_running
    recording.append(SpanRecord(1, 0, -1, END, TARGET, "load", 100 * MS, 140 * MS))
    book.update()
    track.update()
    row = track.stages.rows(track.zero_ns, 999 * MS)
    assert (row.ends.tolist(), row.states.tolist()) == ([40 * MS], [PROVISIONAL])
    recording.append(SpanRecord(1, 0, -1, SETTLED, TARGET, "load", 101 * MS, 142 * MS))
    book.update()
    track.update()
    row = track.stages.rows(100 * MS, 999 * MS)
    assert (row.starts.tolist(), row.ends.tolist()) == ([MS], [42 * MS])
    assert row.states.tolist() == [SETTLED_STATE]
    assert not track.stages.has_running


def test_parts_lie_on_their_own_row_and_know_their_stage(recording: RecordLog) -> None:
    book, track = _track(recording)
    recording.append(SpanRecord(1, 0, -1, BEGIN, TARGET, "vision", 0, -1))
    recording.append(SpanRecord(1, 1, 0, BEGIN, TARGET, "tower", 0, -1))
    recording.append(SpanRecord(1, 2, 0, BEGIN, DRAFT, "elsewhere", 0, -1))
    book.update()
    track.update()
    row = track.parts.rows(0, 10)
    assert [track.parts.names[code] for code in row.names] == ["tower"]
    assert [track.parts.names[code] for code in row.stages] == ["vision"]
    assert len(track.stages) == 1


def test_spans_that_settle_out_of_order_are_sorted(recording: RecordLog) -> None:
    book, track = _track(recording)
    recording.append(SpanRecord(1, 0, -1, BEGIN, TARGET, "load", 10, -1))
    recording.append(SpanRecord(1, 1, -1, BEGIN, TARGET, "preprocess", 20, -1))
    recording.append(SpanRecord(1, 0, -1, SETTLED, TARGET, "load", 30, 40))
    recording.append(SpanRecord(1, 1, -1, SETTLED, TARGET, "preprocess", 20, 29))
    book.update()
    track.update()
    row = track.stages.rows(0, 0)
    assert row.starts.tolist() == [20, 30]
    assert [track.stages.names[code] for code in row.names] == ["preprocess", "load"]


def test_latency_is_the_time_since_the_token_before(recording: RecordLog) -> None:
    book, track = _track(recording)
    for position, t_ns in enumerate((100, 104, 110)):
        recording.append(TokenRecord(1, TARGET, position, 5, "target", -1, t_ns * MS, " x"))
    book.update()
    track.update()
    times, latencies = track.latencies_ms()
    assert latencies.tolist() == [4.0, 6.0]
    assert len(times) == 2


def test_memory_without_a_gpu_has_no_gpu_line(recording: RecordLog) -> None:
    book, track = _track(recording)
    recording.append(MemoryRecord(1, 5, 1000, -1))
    recording.append(KvRecord(1, TARGET, 6, 3, 300))
    recording.append(KvRecord(1, DRAFT, 6, 3, 999))
    book.update()
    track.update()
    assert len(track.gpu_bytes()[0]) == 0
    assert track.rss_bytes()[1].tolist() == [1000.0]
    assert track.kv_bytes()[1].tolist() == [300.0]


def _scripted(mode: str) -> RunBook:
    recording = RecordLog()
    request = RunRequest(mode, Sample("a.npy", "b.mp4"), ModelChoice("x"), ModelChoice("y"))
    ScriptedEngine(speed=3000).run(request, recording, threading.Event())
    book = RunBook(recording)
    book.update()
    return book


def test_step_by_step_equals_at_once() -> None:
    whole = _scripted("speculative")
    at_once = Track(columns_of(whole.runs, (1, 1))[1] or pytest.fail("no column"))
    at_once.update()
    recording, source = RecordLog(), whole.recording
    recording.post(source.messages()[0])
    book = RunBook(recording)
    book.update()
    track = Track(ShownModel(book.runs[1], TARGET))
    streams = {name: stream.rows() for name, stream in source.streams.items()}
    for part in range(20):
        for name, rows in streams.items():
            recording.extend(name, rows[len(rows) * part // 20 : len(rows) * (part + 1) // 20])
        book.update()
        track.update()
    for one, other in zip(at_once.stages.rows(0, 0), track.stages.rows(0, 0), strict=True):
        assert np.array_equal(one, other)
    assert np.array_equal(at_once.token_positions(), track.token_positions())
    for one, other in zip(at_once.rounds(), track.rounds(), strict=True):
        assert np.array_equal(one - one[:1], other - other[:1])


def test_a_speculative_run_fills_both_columns_and_its_draft_has_no_answer() -> None:
    book = _scripted("speculative")
    left, right = columns_of(book.runs, pair_for(book.runs, 1))
    assert (left.role, right.role) == (DRAFT, TARGET)
    draft, target = Track(left), Track(right)
    draft.update()
    target.update()
    assert len(draft.token_times()) == 0
    assert len(target.token_times()) == len(book.runs[1].tokens)
    assert int(target.rounds()[5].sum()) == sum(row.accepted for row in book.runs[1].rounds)


def test_runs_side_by_side_come_as_a_pair_from_either() -> None:
    book = _scripted("side-by-side")
    assert pair_for(book.runs, 1) == (1, 2)
    assert pair_for(book.runs, 2) == (1, 2)


def test_labels_get_shorter_and_only_whole_words_are_used() -> None:
    book = _scripted("target")
    labels = stage_labels(book.runs[1], TARGET, "prefill", 66 * MS)
    assert labels == ["prefill  66.0 ms · 2,089 tokens", "prefill  66.0 ms", "prefill"]
    width = len
    assert widest_that_fits(labels, 20, width) == "prefill  66.0 ms"
    assert widest_that_fits(labels, 7, width) == "prefill"
    assert widest_that_fits(labels, 6, width) == ""
    assert model_title(book.runs[1], TARGET) == "Video-LLaVA"
    assert model_title(book.runs[1], DRAFT) == "Draft"


IDS = ("decode", *(f"part {number}" for number in range(5)))


@st.composite
def span_records(draw: st.DrawFn) -> list[SpanRecord]:
    """Stages and parts in the order of their begin, each told again any number of times and in any order: ended,
    settled at other times, and begun anew."""
    count = draw(st.integers(1, 40))
    told = [(number, BEGIN) for number in range(count)]
    for number, phase in draw(
        st.lists(st.tuples(st.integers(0, count - 1), st.sampled_from([BEGIN, END, SETTLED])), max_size=80)
    ):
        # Not before its own begin, and mostly soon after it.
        place = draw(st.integers(0, 6)) + 1 + max(at for at, one in enumerate(told) if one == (number, BEGIN))
        told.insert(min(place, len(told)), (number, phase))
    moments = st.integers(0, 12) | st.integers(0, 400)
    found = []
    for number, phase in told:
        start = draw(st.just(10 * number) | moments)
        end = -1 if phase == BEGIN else start + draw(st.integers(-2, 30))
        parent = -1 if number % 4 == 0 else number - number % 4
        name = STAGES[number // 4 % len(STAGES)] if parent < 0 else IDS[number % len(IDS)]
        found.append(SpanRecord(1, number, parent, phase, TARGET, name, start, end))
    return found


def _looks(track: Track, zero_ns: int, now_ns: int, scale: Timescale) -> list[Sequence[object]]:
    """All that a picture of the spans is made of."""
    found: list[Sequence[object]] = []
    for table in (track.stages, track.parts):
        row = table.rows(zero_ns, now_ns)
        columns = (row.starts, row.ends, row.ids, row.states, *merged_bars(row.starts, row.ends, scale))
        found += [column.tolist() for column in columns]
        found += [[table.names[code] for code in codes] for codes in (row.names, row.stages)]
        found.append([table.has_running])
    return found


@given(span_records(), st.lists(st.integers(0, 200)), st.data())
def test_spans_taken_in_by_any_pieces_are_those_taken_in_at_once(
    records: list[SpanRecord], cuts: list[int], data: st.DataObject
) -> None:
    scale = Timescale(0, data.draw(st.sampled_from([40, 450])), 120.0)
    recording = RecordLog()
    recording.post(RunStarted(1, RunInfo(1, 1, 0, TARGET, "target")))
    book, track = _track(recording)
    edges = sorted({0, len(records), *(cut for cut in cuts if cut < len(records))})
    for first, last in pairwise(edges):
        recording.extend("spans", records[first:last])
        book.update()
        track.update()
        if data.draw(st.booleans()):
            _looks(track, data.draw(st.integers(-3, 3)), data.draw(st.integers(0, 500)), scale)
    whole = RecordLog()
    whole.post(RunStarted(1, RunInfo(1, 1, 0, TARGET, "target")))
    whole.extend("spans", records)
    _, at_once = _track(whole)
    at_once.update()
    assert _looks(track, 2, 450, scale) == _looks(at_once, 2, 450, scale)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(-1, 5)), max_size=60), st.lists(st.integers(0, 60)))
def test_levels_and_latencies_taken_in_by_any_pieces_are_those_taken_in_at_once(
    rows: list[tuple[int, int]], cuts: list[int]
) -> None:
    tracks = []
    for edges in ({0, len(rows), *(cut for cut in cuts if cut < len(rows))}, {0, len(rows)}):
        recording = RecordLog()
        recording.post(RunStarted(1, RunInfo(1, 1, 0, TARGET, "target")))
        book, track = _track(recording)
        t_ns = 0
        for first, last in pairwise(sorted(edges)):
            for place, (gap, level) in enumerate(rows[first:last], first):
                t_ns += gap
                recording.append(TokenRecord(1, TARGET, place, 5, "target", -1, t_ns, " x"))
                recording.append(KvRecord(1, TARGET, t_ns, place, level))
                recording.append(MemoryRecord(1, t_ns, level + 1, level))
            book.update()
            track.update()
            _levels(track)
        track.shift_ns = 7
        tracks.append(track)
    assert _levels(tracks[0]) == _levels(tracks[1])
    assert [len(part) for part in _levels(tracks[0])[-2:]] == [sum(level >= 0 for _, level in rows)] * 2
    assert tracks[0].latencies_ms()[1].tolist() == [gap / 1e6 for gap, _ in rows[1:]]


def _levels(track: Track) -> list[list[float]]:
    pairs = (track.latencies_ms(), track.kv_bytes(), track.rss_bytes(), track.gpu_bytes())
    return [track.token_times().tolist(), *(part.tolist() for pair in pairs for part in pair)]
