"""Which part of a scene was worked on when, and which tokens could have been drawn from it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evprof.core.records import BEGIN, DRAFT, END, TARGET, FrameRecord, SpanRecord, TokenRecord
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunLog
from evprof.metrics.costs.two_clocks import (
    SensorSpan,
    passage_of,
    roles_behind,
    roles_of_range,
    roles_of_round,
    roles_of_span,
    roles_of_token,
    sensor_us,
    slice_at,
    slices_of,
    windows_of,
    work_of,
)
from told import told


def run_of(mode: str = "speculative", **sample: object) -> RunLog:
    """The draft saw events from 1,000,140 µs on, the target three video frames; four tokens in two rounds."""
    facts = {"name": "scene", "prompt": "?", **sample}
    run = RunLog(RunInfo(1, 1, 0, TARGET, mode, **told({}, facts), start_ns=0))
    for role, times in (
        (DRAFT, [(1_000_140, 1_010_000), (1_010_000, 1_020_140)]),
        (TARGET, [(0, 0), (9, 9), (40, 40)]),
    ):
        for index, (start, end) in enumerate(times):
            run.absorb(FrameRecord(1, role, index, start, end, "", b""))
    spans = [(DRAFT, "preprocess", 0, 10), (DRAFT, "vision", 10, 20), (DRAFT, "prefill", 20, 30)]
    spans += [(TARGET, "preprocess", 30, 40), (TARGET, "vision", 40, 50), (TARGET, "prefill", 50, 60)]
    for number, (role, name, start, end) in enumerate(spans):
        run.absorb(SpanRecord(1, number, -1, BEGIN, role, name, start, -1))
        run.absorb(SpanRecord(1, number, -1, END, role, name, start, end))
    for place, (origin, number) in enumerate([("target", -1), ("accepted", 0), ("bonus", 0), ("bonus", 1)]):
        run.absorb(TokenRecord(1, TARGET, place, 5, origin, number, 60 + place, " a"))
    run.absorb(TokenRecord(1, DRAFT, 3, 6, "rejected", 1, 63, " b"))
    return run


def test_slices_lie_on_the_clock_of_the_sample() -> None:
    run = run_of(clip={"start_ms": 500.0}, video={"path": "a.mp4", "offset_ms": 7.0}, events={"path": "a.npy"})
    assert slices_of(run, DRAFT) == [SensorSpan(500_000, 509_860), SensorSpan(509_860, 520_000)]
    assert slices_of(run, TARGET) == [SensorSpan(7_000, 7_000), SensorSpan(7_009, 7_009), SensorSpan(7_040, 7_040)]
    assert slices_of(run, "nobody") == []


def test_sensor_time_is_what_was_shown_or_asked_for() -> None:
    run = run_of()
    assert (sensor_us(run, DRAFT), sensor_us(run, TARGET), sensor_us(run, "nobody")) == (20_000, 40, None)
    assert sensor_us(run_of(clip={"start_ms": 1.0, "duration_ms": 50.0}), DRAFT) == 50_000
    run.frames[TARGET] = run.frames[TARGET][:1]
    assert sensor_us(run, TARGET) is None


def test_pictures_pass_from_preprocessing_to_the_end_of_the_prefill() -> None:
    assert passage_of(run_of(), DRAFT) == (0, 20, 30)
    assert passage_of(run_of(), TARGET) == (30, 50, 60)
    assert passage_of(run_of(), "nobody") is None


def test_an_accepted_token_was_drawn_from_both_and_the_targets_own_from_its_own() -> None:
    run = run_of()
    both = frozenset({DRAFT, TARGET})
    assert [roles_behind(run, token.origin) for token in run.tokens] == [{TARGET}, both, {TARGET}, {TARGET}]
    assert roles_behind(run, run.rejected[0].origin) == {DRAFT}
    assert [roles_of_token(run, place) for place in (0, 1, 9)] == [{TARGET}, both, frozenset()]
    run.tokens.reverse()
    assert roles_of_token(run, 1) == both
    run.tokens.reverse()
    assert [roles_of_round(run, number) for number in (0, 1, 2)] == [both, both, frozenset()]
    assert roles_behind(run_of("kv-adapted"), "target") == {DRAFT}


def test_an_interval_belongs_to_what_its_model_was_shown() -> None:
    run = run_of()
    assert (roles_of_span(run, 1), roles_of_span(run, 5), roles_of_span(run, 99)) == ({DRAFT}, {TARGET}, frozenset())
    assert roles_of_range(run, 5, 8) == {DRAFT}
    assert roles_of_range(run, 25, 28) == frozenset()
    assert roles_of_range(run, 15, 35) == {DRAFT, TARGET}
    assert roles_of_range(run, 61, 62) == {DRAFT, TARGET}


def test_the_work_on_an_answer_is_that_of_both_models() -> None:
    run = run_of()
    run.absorb(SpanRecord(1, 9, -1, BEGIN, TARGET, "load", 0, -1))
    run.absorb(SpanRecord(1, 10, -1, BEGIN, TARGET, "decode", 60, -1))
    assert work_of(run, DRAFT, 99) == [(0, 10), (10, 20), (20, 30)]
    assert work_of(run, TARGET, 99) == [(0, 10), (10, 20), (20, 30), (30, 40), (40, 50), (50, 60), (60, 99)]


def test_the_windows_of_a_recording_are_its_clips_with_the_pace_of_the_last_run() -> None:
    runs = []
    for number, (start_ms, path, status) in enumerate(
        [(50, "a.npy", "finished"), (0, "a.npy", "finished"), (0, "b.npy", "finished"), (0, "a.npy", "failed")], start=1
    ):
        run = run_of(clip={"start_ms": start_ms, "duration_ms": 50.0}, events={"path": path})
        run.info.run_id, run.info.status = number, status
        runs.append(run)
    again = run_of(clip={"start_ms": 0.0, "duration_ms": 50.0}, events={"path": "a.npy"})
    again.info.run_id, again.info.status, again.info.warmup = 5, "finished", True
    found = windows_of([*runs, again], runs[0], DRAFT)
    assert [one[:3] for one in found] == [(2, 0, 50_000), (1, 50_000, 100_000)]
    assert found[0].factor == 30 / 50_000_000
    again.info.warmup = False
    assert [one.run_id for one in windows_of([*runs, again], runs[0], DRAFT)] == [5, 1]


@given(st.lists(st.integers(0, 100), min_size=1, max_size=9), st.integers(-10, 120))
def test_the_slice_at_a_moment_is_the_last_that_began(starts: list[int], position: int) -> None:
    slices = [SensorSpan(start, start + 5) for start in sorted(starts)]
    found = slice_at(slices, position)
    assert found is not None
    begun = [one for one in slices if one.start_us <= position]
    assert found == max(0, len(begun) - 1)
