"""The Perfetto trace, parsed by Perfetto's own classes: as much in it as in the Chrome trace, and every slice whole."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from evprof.core.run_log import RunLog
from evprof.export.chrome_trace import ChromeTrace
from evprof.export.files import write_export
from evprof.export.perfetto_trace import perfetto_packets
from evprof.export.report.data import Source
from exported import chrome_trace

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class PerfettoTrace:
    """A trace read back: tracks by uuid, and slices as their stack gives them."""

    def __init__(self, path: Path) -> None:
        protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
        trace = protos.Trace()
        trace.ParseFromString(path.read_bytes())
        self.kinds = protos.TrackEvent
        self.tracks: dict[int, Any] = {}
        self.events: list[tuple[int, Any]] = []
        for packet in trace.packet:
            assert packet.trusted_packet_sequence_id == 1
            if packet.HasField("track_descriptor"):
                assert packet.track_descriptor.uuid not in self.tracks
                self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
            else:
                self.events.append((packet.timestamp, packet.track_event))
        self.slices: list[tuple[str, str, str, int, int]] = []
        self.flows: dict[int, list[str]] = defaultdict(list)
        self._stack()

    def place(self, uuid: int) -> tuple[str, str]:
        """The names of a track's process and of itself."""
        track = self.tracks[uuid]
        return self.tracks[track.parent_uuid].process.process_name, track.name

    def _stack(self) -> None:
        open_: dict[int, list[tuple[str, int]]] = defaultdict(list)
        last: dict[int, int] = defaultdict(int)
        for at, event in self.events:
            assert at >= last[event.track_uuid] or event.type == self.kinds.TYPE_INSTANT
            last[event.track_uuid] = at
            if event.type == self.kinds.TYPE_SLICE_BEGIN:
                open_[event.track_uuid].append((event.name, at))
                for flow in event.flow_ids:
                    self.flows[flow].append("s")
                for flow in event.terminating_flow_ids:
                    self.flows[flow].append("f")
            elif event.type == self.kinds.TYPE_SLICE_END:
                name, start = open_[event.track_uuid].pop()
                self.slices.append((*self.place(event.track_uuid), name, start, at))
        assert not any(open_.values())

    def of(self, kind: str) -> list[Any]:
        return [event for _, event in self.events if event.type == getattr(self.kinds, f"TYPE_{kind}")]


def chrome_slices(entries: list[dict[str, Any]]) -> list[tuple[str, str, str, int, int]]:
    named = {(e["pid"], e["tid"]): e["args"]["name"] for e in entries if e["name"] == "thread_name"}
    processes = {e["pid"]: e["args"]["name"] for e in entries if e["name"] == "process_name"}
    return [
        (
            processes[e["pid"]],
            named[e["pid"], e["tid"]],
            e["name"],
            round(e["ts"] * 1000),
            round((e["ts"] + e["dur"]) * 1000),
        )
        for e in entries
        if e["ph"] == "X"
    ]


@pytest.fixture
def written(runs: list[RunLog], speculative_run: RunLog, unborn_run: RunLog, tmp_path: Path) -> Any:
    """Runs with everything in them, as both traces."""
    listed = [*runs[:2], speculative_run, unborn_run]
    path = tmp_path / "trace.pftrace"
    told: list[str] = []
    write_export([Source(Path(), listed)], "perfetto", path, tell=told.append)
    return PerfettoTrace(path), chrome_trace(listed), told


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
