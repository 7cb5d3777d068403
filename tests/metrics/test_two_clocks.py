"""Which part of a scene a model was shown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evprof.core.records import DRAFT, TARGET, FrameRecord
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunLog
from evprof.metrics.costs.two_clocks import SensorSpan, slice_at, slices_of
from told import told


def run_of(mode: str = "speculative", **sample: object) -> RunLog:
    """The draft saw events from 1,000,140 µs on, the target three video frames."""
    facts = {"name": "scene", "prompt": "?", **sample}
    run = RunLog(RunInfo(1, 1, 0, TARGET, mode, **told({}, facts), start_ns=0))
    for role, times in (
        (DRAFT, [(1_000_140, 1_010_000), (1_010_000, 1_020_140)]),
        (TARGET, [(0, 0), (9, 9), (40, 40)]),
    ):
        for index, (start, end) in enumerate(times):
            run.absorb(FrameRecord(1, role, index, start, end, "", b""))
    return run


def test_slices_lie_on_the_clock_of_the_sample() -> None:
    run = run_of(clip={"start_ms": 500.0}, video={"path": "a.mp4", "offset_ms": 7.0}, events={"path": "a.npy"})
    assert slices_of(run, DRAFT) == [SensorSpan(500_000, 509_860), SensorSpan(509_860, 520_000)]
    assert slices_of(run, TARGET) == [SensorSpan(7_000, 7_000), SensorSpan(7_009, 7_009), SensorSpan(7_040, 7_040)]
    assert slices_of(run, "nobody") == []


@given(st.lists(st.integers(0, 100), min_size=1, max_size=9), st.integers(-10, 120))
def test_the_slice_at_a_moment_is_the_last_that_began(starts: list[int], position: int) -> None:
    slices = [SensorSpan(start, start + 5) for start in sorted(starts)]
    found = slice_at(slices, position)
    assert found is not None
    begun = [one for one in slices if one.start_us <= position]
    assert found == max(0, len(begun) - 1)
