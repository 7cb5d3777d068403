"""Runs as Perfetto's own trace: the entries of the Chrome trace as packets, one after the other.

A run is a process track, and every thread of the Chrome trace a named track below it in the same order. Slices,
instants and arrows are TrackEvents with the same names, categories and arguments; every value of a counter has a track
of its own that knows its unit. Only the run at hand is in memory.
Format: protos/perfetto/trace of https://github.com/google/perfetto (Trace, TracePacket, TrackDescriptor, TrackEvent).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from evprof.export.trace_entries import COUNTER_UNITS, Entry
from evprof.export.wire import double, fixed64, message, number, text

_PACKET, _SEQUENCE = 1, number(10, 1)
_TIMESTAMP, _EVENT, _DESCRIPTOR = 8, 11, 60
"""Fields of Trace and TracePacket. Everything is one sequence: one writer."""

_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
"""Types of a TrackEvent."""

_EXPLICIT_ORDER = 3
"""Tracks below this one stand in order of their `sibling_order_rank`."""

_UNITS = {"bytes": number(3, 3), "count": number(3, 2)}
"""Units that Perfetto has a number for, in a CounterDescriptor; others are told by name."""

_MOST_PID = (1 << 31) - 1
_INT64 = range(-(1 << 63), 1 << 63)


def perfetto_packets(entries: Iterable[Entry]) -> Iterator[bytes]:
    """The bytes of a trace, packet by packet, of the entries of `ChromeTrace` in their order."""
    writer = _Writer()
    for entry in entries:
        yield from writer.take(entry)
    yield from writer.finish()


class _Writer:
    """Turns entries into packets; it keeps the tracks of one process, and the slices that are open on one of them."""

    def __init__(self) -> None:
        self._numbers = 0
        self._process = 0
        self._told: dict[str, Any] = {}
        self._tracks: dict[int | str, int] = {}
        self._flows: dict[str, int] = {}
        self._thread = -1
        self._open: list[int] = []
        self._begun: Entry | None = None
        self._arrows = b""

    def take(self, entry: Entry) -> Iterator[bytes]:
        """The packets that are due now. A slice waits for its arrows, which stand right behind it."""
        kind = entry["ph"]
        if kind in "sf":
            self._arrows += fixed64(47 if kind == "s" else 48, self._flow(entry["id"]))
            return
        yield from self._begin()
        if kind == "X":
            yield from self._close(entry["tid"], _ns(entry["ts"]))
            self._begun = entry
            return
        if kind == "M":
            # The first entries of a run: no slice of the one before it is open any more.
            yield from self._close(-1, 0)
            yield from self._name(entry)
        elif kind == "i":
            yield _event(_INSTANT, _ns(entry["ts"]), self._tracks[entry["tid"]], _described(entry))
        else:
            yield from self._count(entry)

    def finish(self) -> Iterator[bytes]:
        """What is still open."""
        yield from self._begin()
        yield from self._close(-1, 0)

    def _begin(self) -> Iterator[bytes]:
        entry, self._begun = self._begun, None
        if entry is None:
            return
        content = _described(entry) + self._arrows
        self._arrows = b""
        yield _event(_BEGIN, _ns(entry["ts"]), self._tracks[entry["tid"]], content)
        self._open.append(_ns(entry["ts"] + entry["dur"]))

    def _close(self, thread: int, at_ns: int) -> Iterator[bytes]:
        """Ends the slices that are over at this moment, or on another track, innermost first."""
        while self._open and (thread != self._thread or self._open[-1] <= at_ns):
            yield _event(_END, self._open.pop(), self._tracks[self._thread])
        self._thread = thread

    def _name(self, entry: Entry) -> Iterator[bytes]:
        """Names come first, facts next; with its place among others everything about a track is known."""
        self._told |= {entry["name"]: entry["args"]}
        if entry["name"] == "process_sort_index":
            self._tracks, self._flows = {}, {}
            self._process = self._next()
            process = number(1, entry["pid"] % _MOST_PID) + text(6, self._told["process_name"]["name"])
            labels = b"".join(text(8, label) for label in _labels(self._told["process_labels"]))
            yield _track(self._process, message(3, process + labels) + number(11, _EXPLICIT_ORDER))
        elif entry["name"] == "thread_sort_index":
            track = self._tracks[entry["tid"]] = self._next()
            name = text(2, self._told["thread_name"]["name"])
            yield _track(track, name + number(5, self._process) + number(12, entry["args"]["sort_index"]))

    def _count(self, entry: Entry) -> Iterator[bytes]:
        for key, value in entry["args"].items():
            name = entry["name"] if entry["name"].endswith(key) else f"{entry['name']} {key}"
            if name not in self._tracks:
                unit = COUNTER_UNITS[key]
                track = self._tracks[name] = self._next()
                counter = message(8, _UNITS.get(unit) or text(6, unit))
                yield _track(track, text(2, name) + number(5, self._process) + counter)
            content = double(44, value) if isinstance(value, float) else number(30, value)
            yield _event(_COUNTER, _ns(entry["ts"]), self._tracks[name], content)

    def _flow(self, name: str) -> int:
        if name not in self._flows:
            self._flows[name] = self._next()
        return self._flows[name]

    def _next(self) -> int:
        self._numbers += 1
        return self._numbers


def _ns(at_us: float) -> int:
    return round(at_us * 1000)


def _track(uuid: int, content: bytes) -> bytes:
    return message(_PACKET, _SEQUENCE + message(_DESCRIPTOR, number(1, uuid) + content))


def _event(kind: int, at_ns: int, track: int, content: bytes = b"") -> bytes:
    event = number(9, kind) + number(11, track) + content
    return message(_PACKET, number(_TIMESTAMP, at_ns) + _SEQUENCE + message(_EVENT, event))


def _described(entry: Entry) -> bytes:
    arguments = b"".join(_annotation(4, name, value) for name, value in entry["args"].items() if value is not None)
    return text(22, entry["cat"]) + text(23, entry["name"]) + arguments


def _annotation(field: int, name: str, value: Any) -> bytes:
    """A DebugAnnotation; one in a list has no name."""
    return message(field, (text(10, name) if name else b"") + _value(value))


def _value(value: Any) -> bytes:
    if isinstance(value, bool):
        return number(2, value)
    if isinstance(value, int) and value in _INT64:
        return number(4, value)
    if isinstance(value, float):
        return double(5, value)
    if isinstance(value, dict):
        return b"".join(_annotation(11, key, each) for key, each in value.items())
    if isinstance(value, list | tuple):
        return b"".join(_annotation(12, "", each) for each in value)
    return text(6, str(value))


def _labels(facts: dict[str, Any]) -> Iterator[str]:
    """What is known of a run, one label for each fact."""
    for name, value in facts.items():
        if value:
            told = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            yield told if name == "labels" else f"{name}: {told}"
