"""Reads a Perfetto trace back with Perfetto's own classes, and what a Chrome trace has in its place."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest


class PerfettoTrace:
    """A trace read back: tracks by uuid, and slices as their stack gives them."""

    def __init__(self, data: bytes) -> None:
        protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
        trace = protos.Trace()
        trace.ParseFromString(data)
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
