"""The Perfetto trace, parsed by Perfetto's own classes: as much in it as in the Chrome trace, and every slice whole."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evprof.core.run_log import RunLog
from evprof.export.chrome_trace import ChromeTrace
from evprof.export.files import write_export
from evprof.export.perfetto_trace import perfetto_packets
from evprof.export.report.data import Source
from exported import chrome_trace
from perfetto_check import PerfettoTrace, chrome_slices

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def written(runs: list[RunLog], speculative_run: RunLog, unborn_run: RunLog, tmp_path: Path) -> Any:
    """Runs with everything in them, as both traces."""
    listed = [*runs[:2], speculative_run, unborn_run]
    path = tmp_path / "trace.pftrace"
    told: list[str] = []
    write_export([Source(Path(), listed)], "perfetto", path, tell=told.append)
    return PerfettoTrace(path.read_bytes()), chrome_trace(listed), told


def test_it_holds_as_much_as_the_chrome_trace(written: Any) -> None:
    trace, chrome, told = written
    counts = chrome["otherData"]
    values = sum(len(entry["args"]) for entry in chrome["traceEvents"] if entry["ph"] == "C")
    assert counts["slices"] > 20
    assert counts["flows"] > 2
    assert len(trace.of("SLICE_BEGIN")) == len(trace.of("SLICE_END")) == counts["slices"]
    assert len(trace.of("INSTANT")) == counts["instants"]
    assert len(trace.of("COUNTER")) == values
    assert len(trace.flows) == counts["flows"]
    assert all(sorted(ends) == ["f", "s"] for ends in trace.flows.values())
    assert "1 run never began and is not in the trace." in told


def test_every_slice_stands_where_the_chrome_trace_has_it(written: Any) -> None:
    trace, chrome, _ = written
    assert Counter(trace.slices) == Counter(chrome_slices(chrome["traceEvents"]))


def test_arguments_keep_their_values(written: Any) -> None:
    trace, chrome, _ = written
    round_ = next(event for event in trace.of("SLICE_BEGIN") if "round" in event.categories)
    found = {note.name: note for note in round_.debug_annotations}
    entry = next(e for e in chrome["traceEvents"] if e.get("cat") == "round" and e["name"] == round_.name)
    assert found["drafted"].int_value == entry["args"]["drafted"]
    assert found["drafted_ids"].string_value == entry["args"]["drafted_ids"]
    assert found["hidden"].bool_value is entry["args"]["hidden"]
    vision = next(
        event for event in trace.of("SLICE_BEGIN") if any(n.name == "inputs" for n in event.debug_annotations)
    )
    listed = next(note for note in vision.debug_annotations if note.name == "inputs")
    assert all("bytes" in value.string_value for value in listed.array_values)


def test_counters_know_their_units(written: Any) -> None:
    trace, _, _ = written
    units = {
        track.name: (track.counter.unit, track.counter.unit_name)
        for track in trace.tracks.values()
        if track.HasField("counter")
    }
    descriptor = type(next(t for t in trace.tracks.values() if t.HasField("counter")).counter)
    assert units["KV cache target bytes"] == (descriptor.UNIT_SIZE_BYTES, "")
    assert units["KV cache target positions"] == (descriptor.UNIT_COUNT, "")
    assert units["memory resident"] == (descriptor.UNIT_SIZE_BYTES, "")
    values = {event.track_uuid: event.counter_value for event in trace.of("COUNTER")}
    assert all(value > 0 for value in values.values())


def test_only_one_run_is_in_memory_at_a_time(runs: list[RunLog]) -> None:
    asked: list[int] = []

    class Counted(list[RunLog]):
        def __iter__(self) -> Any:
            for run in list.__iter__(self):
                asked.append(run.run_id)
                yield run

    packets = perfetto_packets(ChromeTrace([Source(Path(), Counted(runs))]).entries())
    next(packets)
    assert asked == [runs[0].run_id]
    assert sum(1 for _ in packets) > 100
    assert len(asked) == len(runs)
