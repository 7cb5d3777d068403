"""What loading read, from where and how fast, in the inspector; parts that work goes to and fro among."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from evprof.core.recording import RecordLog
from evprof.core.records import BEGIN, END, SETTLED, SpanRecord
from evprof.core.run_info import LoadingFacts
from evprof.core.run_log import RunBook, RunLog
from evprof.view.columns import ShownModel
from ui.runs.run_details import DetailSection, span_sections, summary_sections

EVENTS = LoadingFacts(1_048_576, 262_144, events=500_000, decoder="dsec-h5")
FRAMES = LoadingFacts(2_097_152, 0, frames=8, decoder="pyav", frame_cache="miss")


@pytest.fixture
def run(add_row: Callable[..., None]) -> RunLog:
    """A run whose stage load opened for 2 ms, then decoded (4 ms) and coloured (1 ms) twice in turns."""
    recording = RecordLog()
    add_row(recording, 1, {"load": 20.0, "decode": 50.0})
    at = 0
    for span_id, (name, length_ms) in enumerate(
        (("open", 2), ("decode", 4), ("colour", 1), ("decode", 4), ("colour", 1)), start=50
    ):
        end = at + length_ms * 1_000_000
        for phase in (BEGIN, END, SETTLED):
            recording.append(SpanRecord(1, span_id, 0, phase, "target", name, at, -1 if phase == BEGIN else end))
        at = end
    book = RunBook(recording)
    book.update()
    return book.runs[1]


def lines(section: DetailSection) -> dict[str, str]:
    return {detail.name: detail.text for detail in section.details}


def section(run: RunLog, head: str) -> DetailSection | None:
    stage = run.stage("load", "target")
    assert stage is not None
    return next((found for found in span_sections(run, stage) if found.head == head), None)


def test_parts_that_take_turns_are_told_together(run: RunLog) -> None:
    found = section(run, "Parts")
    assert lines(found) == {"open": "2.00 ms", "decode × 2": "8.00 ms", "colour × 2": "2.00 ms"}
    assert {detail.swatch for detail in found.details} == {""}, "a part is no stage, whatever it is called"


def test_frames_are_told_with_their_rate_and_where_they_came_from(run: RunLog) -> None:
    run.info.loading["target"] = FRAMES
    found = section(run, "Loading")
    assert lines(found) == {
        "frames": "8",
        "rate": "667 frames/s",
        "decoder": "pyav",
        "frame cache": "miss",
        "read": "2.00 MiB",
        "from disk": "0 B",
        "cached": "100 %",
    }
    assert all(detail.tip for detail in found.details)


def test_what_was_not_measured_is_left_out(run: RunLog) -> None:
    assert section(run, "Loading") is None
    run.info.loading["target"] = LoadingFacts(decoder="pillow")
    found = section(run, "Loading")
    assert found is not None
    assert lines(found) == {"decoder": "pillow"}
    assert all(one.head != "Loading" for one in summary_sections(None, ShownModel(run, "draft")))
