"""What a second of input costs: frames weigh their own time, and how much happened in them is counted."""

from __future__ import annotations

import io
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from evprof.core.records import FrameRecord
from evprof.core.run_info import LengthFacts, LoadingFacts
from evprof.core.run_log import RunLog
from evprof.loaders.pictures.motion import motion_of
from evprof.metrics.costs.visual_costs import SecondCosts, second_costs, second_sentences, visual_costs


def png(brightness: int, side: int = 8) -> bytes:
    """A grey square."""
    held = io.BytesIO()
    Image.fromarray(np.full((side, side, 3), brightness, dtype=np.uint8)).save(held, format="PNG")
    return held.getvalue()


def run_of(cell_runs: ModuleType, spans: list[tuple[int, int]], **changes: Any) -> RunLog:
    stages = {"load": 10.0, "vision": 30.0, "prefill": 500.0, "decode": 140.0}
    cell = cell_runs.Cell(is_imported=False, samples=1, stages=stages, frames=len(spans), prompt=1000, **changes)
    run: RunLog = cell.runs()[0]
    for index, (start, end) in enumerate(spans):
        run.absorb(FrameRecord(1, run.info.role, index, start, end, "", b""))
    return run


def seconds_of(run: RunLog, shared: int, own: list[int], motions: tuple[float | None, ...] = ()) -> SecondCosts | None:
    role, visual = run.info.role, sum(own) + shared
    run.info.lengths = {role: LengthFacts(visual + 20, 0, 20, visual, own)}
    costs = visual_costs(run, role)
    assert costs is not None
    return second_costs(run, role, costs, motions)


@given(
    lengths=st.lists(st.integers(100, 50_000), min_size=1, max_size=8),
    own=st.integers(1, 600),
    shared=st.integers(0, 577),
    events=st.integers(100, 10_000_000),
)
def test_slices_of_events_add_up_to_what_all_cost(
    cell_runs: ModuleType, lengths: list[int], own: int, shared: int, events: int
) -> None:
    starts = [sum(lengths[:place]) for place in range(len(lengths))]
    spans = [(start, start + length) for start, length in zip(starts, lengths, strict=True)]
    run = run_of(cell_runs, spans, role="draft", family="eventgpt")
    run.info.loading = {run.info.role: LoadingFacts(events=events)}
    found = seconds_of(run, shared, [own] * len(lengths))
    assert found is not None
    assert found.reads == "events"
    weighed = [(frame, lengths[frame.frame] / 1e6) for frame in found.frames]
    assert len(weighed) == len(lengths)
    total_s = sum(lengths) / 1e6
    assert sum(frame.cost.tokens * lasts for frame, lasts in weighed) == pytest.approx(found.whole.tokens * total_s)
    assert sum((frame.cost.ms or 0) * lasts for frame, lasts in weighed) == pytest.approx(
        (found.whole.ms or 0) * total_s
    )
    assert sum((frame.activity or 0) * lasts for frame, lasts in weighed) == pytest.approx(events)


def test_a_frame_of_a_video_stands_for_the_time_to_the_next(cell_runs: ModuleType) -> None:
    run = run_of(cell_runs, [(0, 0), (500_000, 500_000), (1_000_000, 1_000_000)])
    found = seconds_of(run, 0, [100, 100, 100], (None, 2.5, 5.0))
    assert found is not None
    assert found.reads == "video"
    assert found.whole.tokens == pytest.approx(200)
    assert [frame.cost.tokens for frame in found.frames] == pytest.approx([200, 200, 200])
    assert [frame.activity for frame in found.frames] == [None, 2.5, 5.0]
    assert second_sentences([("A", found)]) == [second_sentences([("A", found), ("B", found)])[0]]


def test_a_single_moment_has_no_second(cell_runs: ModuleType) -> None:
    assert seconds_of(run_of(cell_runs, [(0, 0)]), 0, [100]) is None


@given(st.lists(st.integers(0, 255), min_size=1, max_size=6))
def test_motion_is_the_mean_change_of_brightness(levels: list[int]) -> None:
    found = motion_of(tuple(png(level) for level in levels))
    assert found[0] is None
    for place, value in enumerate(found[1:], start=1):
        assert value == pytest.approx(abs(levels[place] - levels[place - 1]) / 2.55)


def test_pictures_that_cannot_be_compared_have_no_motion() -> None:
    assert motion_of((png(10), b"no picture", png(20), png(30, side=9))) == (None,) * 4
    assert motion_of((png(10), png(20, side=2000))) == (None, None)
