"""Runs built up from a Recording, in whatever pieces and order a reader gets to see it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evprof.core.protocols import RunDescribed, RunEnded, RunStarted, RunWarned
from evprof.core.recording import RecordLog
from evprof.core.records import (
    BEGIN,
    DRAFT,
    END,
    SETTLED,
    TARGET,
    FrameRecord,
    KvRecord,
    MemoryRecord,
    RoundRecord,
    SpanRecord,
    TensorRecord,
    TokenRecord,
)
from evprof.core.run_info import LengthFacts, RunInfo
from evprof.core.run_log import RunBook, RunLog
from run_logs import content


def info(run_id: int = 1) -> RunInfo:
    return RunInfo(run_id, 1, 0, TARGET, "speculative")


def span(span_id: int, phase: int, name: str, start_ns: int, end_ns: int = -1, *, parent_id: int = -1) -> SpanRecord:
    return SpanRecord(1, span_id, parent_id, phase, TARGET, name, start_ns, end_ns)


STORY = [
    RunStarted(1, info()),
    span(0, BEGIN, "load", 100),
    TensorRecord(1, 0, "out", "events", "5", "int64", 40),
    span(0, END, "load", 100, 200),
    RunDescribed(1, {"lengths": {TARGET: LengthFacts(10, 2, 3, 5)}}),
    span(1, BEGIN, "vision", 210),
    span(2, BEGIN, "tower", 220, parent_id=1),
    span(2, END, "tower", 220, 300, parent_id=1),
    span(1, END, "vision", 210, 310),
    FrameRecord(1, DRAFT, 0, 0, 5, "one", b"png"),
    span(2, SETTLED, "tower", 225, 305, parent_id=1),
    span(1, SETTLED, "vision", 212, 312),
    RunDescribed(1, {"lengths": {DRAFT: {"input": 4, "system": 1, "text": 1, "visual": 2}}, "start_ns": 100}),
    TokenRecord(1, TARGET, 0, 5, "target", -1, 400, " a"),
    KvRecord(1, TARGET, 400, 10, 100),
    TokenRecord(1, DRAFT, 1, 6, "rejected", 0, 410, " b"),
    RoundRecord(1, 0, 401, 3, 4, 1, 1, 0, 1, "6", 0),
    MemoryRecord(1, 405, 1000, -1),
    RunWarned(1, "slow disk"),
    RunEnded(1, "finished", facts={"end_ns": 500, "text": "a"}),
]


def put(recording: RecordLog, entry) -> None:
    (recording.post if isinstance(entry, RunStarted | RunDescribed | RunWarned | RunEnded) else recording.append)(entry)


def whole() -> RunLog:
    recording = RecordLog()
    for entry in STORY:
        put(recording, entry)
    book = RunBook(recording)
    book.update()
    return book.runs[1]


def test_the_story_is_told_whole():
    run = whole()
    assert [stage.name for stage in run.stages()] == ["load", "vision"]
    vision = run.stage("vision", TARGET)
    assert (vision.start_ns, vision.end_ns, vision.duration_ns) == (212, 312, 100)
    assert (vision.host_start_ns, vision.host_end_ns, vision.is_settled) == (210, 310, True)
    [tower] = run.children(vision.span_id)
    assert (tower.name, tower.is_stage, tower.start_ns) == ("tower", False, 225)
    load = run.stage("load", TARGET)
    assert (load.is_settled, load.tensors[0].name) == (False, "events")
    assert [token.piece for token in run.tokens] == [" a"]
    assert [token.piece for token in run.rejected] == [" b"]
    assert (len(run.rounds), len(run.kv[TARGET]), len(run.memory), len(run.frames[DRAFT])) == (1, 1, 1, 1)
    assert run.info.lengths == {TARGET: LengthFacts(10, 2, 3, 5), DRAFT: LengthFacts(4, 1, 1, 2)}
    assert (run.info.status, run.info.text, run.info.start_ns, run.info.end_ns) == ("finished", "a", 100, 500)
    assert run.info.warnings == ["slow disk"]
    assert run.stage("decode", TARGET) is None
    assert run.stages(DRAFT) == []


@given(st.sets(st.integers(0, len(STORY))))
def test_in_whatever_pieces_it_is_read(cuts):
    recording = RecordLog()
    book = RunBook(recording)
    for place, entry in enumerate(STORY):
        if place in cuts:
            book.update()
        put(recording, entry)
    book.update()
    run, expected = book.runs[1], whole()
    assert content(run) == content(expected)
    assert [run.children(span_id) for span_id in run.spans] == [expected.children(span_id) for span_id in run.spans]


def test_an_end_that_comes_after_the_device_times_does_not_undo_them():
    log = RunLog(info())
    log.absorb(span(1, BEGIN, "vision", 210))
    log.absorb(span(1, SETTLED, "vision", 212, 312))
    log.absorb(span(1, END, "vision", 210, 310))
    found = log.stage("vision", TARGET)
    assert (found.start_ns, found.end_ns, found.is_settled) == (212, 312, True)
    assert (found.host_start_ns, found.host_end_ns) == (210, 310)


def test_the_running_stage_is_the_one_that_began_and_did_not_end():
    log = RunLog(info())
    assert log.running_span is None
    log.absorb(span(0, BEGIN, "load", 1))
    log.absorb(span(0, END, "load", 1, 2))
    log.absorb(span(1, BEGIN, "vision", 3))
    log.absorb(span(2, BEGIN, "tower", 4, parent_id=1))
    running = log.running_span
    assert running is not None
    assert (running.name, running.duration_ns) == ("vision", None)
    log.info.status = "failed"
    assert log.running_span is None


def test_a_tensor_seen_before_its_span_finds_it():
    log = RunLog(info())
    log.absorb(TensorRecord(1, 3, "in", "x", "1", "f", 4))
    log.absorb(span(3, BEGIN, "vision", 1))
    assert [tensor.name for tensor in log.spans[3].tensors] == ["x"]


def test_rows_read_a_moment_before_their_run_wait_for_it():
    recording = RecordLog()
    book = RunBook(recording)
    recording.append(KvRecord(4, TARGET, 1, 2, 3))
    assert book.update() == ([], set())
    recording.post(RunStarted(4, info(4)))
    messages, changed = book.update()
    assert (len(messages), changed) == (1, {4})
    assert len(book.runs[4].kv[TARGET]) == 1


def test_changes_are_told_by_run_and_the_message_stays_as_it_was():
    recording = RecordLog()
    book = RunBook(recording)
    started = RunStarted(1, info())
    recording.post(started)
    recording.post(RunStarted(2, info(2)))
    assert book.update()[1] == {1, 2}
    recording.post(RunEnded(2, "failed", "why"))
    recording.post(RunWarned(9, "nobody"))
    assert book.update()[1] == {2}
    assert (book.runs[2].info.status, book.runs[2].info.error) == ("failed", "why")
    recording.append(MemoryRecord(1, 1, 2, 3))
    assert book.update()[1] == {1}
    recording.post(RunEnded(1, "finished", facts={"text": "x"}))
    book.update()
    assert (started.info.status, started.info.text) == ("running", None)


@given(st.lists(st.sampled_from((TARGET, "accepted", "rejected"))))
def test_an_answers_extent_is_that_of_its_tokens(origins: list[str]) -> None:
    log = RunLog(info())
    for place, origin in enumerate(origins):
        log.absorb(TokenRecord(1, TARGET, place, 5, origin, -1, 100 + place * place, " a"))
    times = [token.t_ns for token in log.tokens]
    found = log.answer_extent
    assert found == (len(times), *((times[0], times[-1]) if times else (None, None)))
    assert found.passed_ns == (times[-1] - times[0] if len(times) > 1 else None)


@given(st.lists(st.tuples(st.integers(1, 2), st.integers(1, 4)), max_size=20), st.integers(-1, 30))
def test_rows_from_any_on_are_found_among_those_of_runs_that_take_turns(
    pieces: list[tuple[int, int]], since: int
) -> None:
    recording = RecordLog()
    for run_id in (1, 2):
        recording.post(RunStarted(run_id, info(run_id)))
    book = RunBook(recording)
    told: dict[int, list[int]] = {1: [], 2: []}
    for place, (run_id, count) in enumerate(pieces):
        told[run_id] += [100 * place + number for number in range(count)]
        recording.extend("kv", [(run_id, TARGET, 100 * place + number, 0, 0) for number in range(count)])
        if place % 3 == 0:
            book.update()
    book.update()
    for run_id, moments in told.items():
        run = book.runs[run_id]
        assert run.count("kv") == len(moments)
        found = [t_ns for block in run.blocks("kv", since) for t_ns in block.column("t_ns").tolist()]
        assert found == moments[max(since, 0) :]
