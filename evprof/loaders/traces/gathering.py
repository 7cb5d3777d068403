"""Entries of a trace into columns that grow; what they take is asked of a budget before it is taken."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from evprof.core.budget import Budget
from evprof.core.rows.blocks import Ints
from evprof.core.rows.trace_columns import (
    NONE,
    DeviceColumns,
    MemoryColumns,
    Shares,
    SliceColumns,
    TraceColumns,
    TraceHead,
    TraceTrack,
)
from evprof.core.units import ms_text
from evprof.loaders.traces.scanning import Arguments, TraceEntry

LONGEST_TEXT = 4_000
"""Characters kept of a name; templates of C++ may have more."""

_LATEST_US = 2.0**62 / 1000
_LONGEST_NS = 30 * 86_400 * 10**9
"""Of one recording: entries further away from the others have no time."""

_ROW_BYTES = 96
_TEXT_BYTES = 120
_NO_ARGUMENTS = Arguments()
_NO_TEXT = b""


class _Codes(dict[Any, int]):
    """Numbers of what was met, in order; new ones are made by `make` and asked of the budget."""

    def __init__(self, texts: list[str], make: Callable[[Any], str], budget: Budget) -> None:
        super().__init__()
        self._texts, self._make, self._budget = texts, make, budget

    def __missing__(self, key: Any) -> int:
        text = self._make(key)
        self._budget.take(_TEXT_BYTES + 2 * len(text))
        self._texts.append(text)
        self[key] = code = len(self._texts) - 1
        return code

    def of(self, keys: Sequence[Any]) -> list[int]:
        try:
            return [self[key] for key in keys]
        except TypeError:  # a list or table, where a word is expected
            return [self[str(key)[:LONGEST_TEXT]] for key in keys]


class _Table:
    """Columns under way: pieces of each."""

    def __init__(self, kinds: Sequence[type[np.generic]]) -> None:
        self._kinds = kinds
        self._pieces: list[list[Any]] = [[np.empty(0, kind)] for kind in kinds]
        self.rows = 0

    def add(self, columns: Sequence[Any]) -> None:
        for pieces, kind, column in zip(self._pieces, self._kinds, columns, strict=True):
            pieces.append(np.asarray(column, dtype=kind))
        self.rows += len(columns[0])

    def columns(self) -> list[Any]:
        return [np.concatenate(pieces) for pieces in self._pieces]


_I, _C, _F = np.int64, np.int32, np.float64


class TraceGathering:
    """Takes the entries of one trace and gives its columns. Raises UserError beyond the budget."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._texts: list[str] = []
        self._words = _Codes(self._texts, lambda name: _sound(str(name)[:LONGEST_TEXT]), budget)
        self._lists = _Codes(self._texts, _list_text, budget)
        self._tracks: dict[Any, int] = {}
        self._names: dict[tuple[str, str, str], str] = {}
        self._slices = _Table((_I, _I, _C, _C, _C, _C, _I, _I))
        self._device = _Table((_I, _I, _C, _C, _I, _I, _F, _F, _I))
        self._memory = _Table((_I, _C, _I, _I, _I, _I, _I, _I))
        self.entries = 0
        self._odd: Counter[str] = Counter()

    def add(self, entries: Sequence[TraceEntry | None]) -> None:
        self.entries += len(entries)
        tables = [entry for entry in entries if entry is not None]
        if len(tables) < len(entries):
            self._odd["cannot be read"] += len(entries) - len(tables)
        slices = [entry for entry in tables if entry.ph == "X"]
        marks = [entry for entry in tables if entry.ph == "i" and entry.name == "[memory]"]
        for entry in tables:
            if entry.ph == "M":
                self._name(entry)
        if alone := sum(entry.ph in ("B", "E") for entry in tables):
            self._odd["begin or end a slice by themselves"] += alone
        self._budget.take(_ROW_BYTES * (len(slices) + len(marks)))
        if slices:
            self._add_slices(slices)
        if marks:
            self._add_memory(marks)

    def columns(self, head: TraceHead, problems: Iterable[str] = ()) -> TraceColumns:
        slices, device = SliceColumns(*self._slices.columns()), DeviceColumns(*self._device.columns())
        odd = [f"{count:,} of its entries {what} and were left out." for what, count in self._odd.items() if count]
        return TraceColumns(
            head,
            tuple(self._texts),
            tuple(self._track(pid, tid) for pid, tid in self._tracks),
            slices,
            device,
            MemoryColumns(*self._memory.columns()),
            self.entries,
            (*problems, *odd, *self._overlaps(slices, device)),
        )

    def _overlaps(self, slices: SliceColumns, device: DeviceColumns) -> list[str]:
        """A sentence about kernels that contain the next one on their stream, which runs one kernel at a time."""
        kernels = [code for word, code in self._words.items() if word == "kernel"]
        rows = device.rows[np.isin(slices.categories[device.rows], kernels)]
        rows = rows[np.lexsort((slices.starts[rows], slices.tracks[rows]))]
        ends, tracks = slices.starts[rows] + slices.durations[rows], slices.tracks[rows]
        excess_ns = np.where(tracks[1:] == tracks[:-1], ends[:-1] - ends[1:], 0)
        count = int((excess_ns > 0).sum())
        if not count:
            return []
        return [
            f"{count:,} of {len(rows):,} kernels end after the next one on their stream, by up to "
            f"{ms_text(excess_ns.max() / 1e6)}: the times of kernels and the shares of GPUs are unreliable."
        ]

    def _track(self, pid: Any, tid: Any) -> TraceTrack:
        names = [self._names.get((kind, str(pid), "")) for kind in ("process_name", "process_labels")]
        thread = self._names.get(("thread_name", str(pid), str(tid)), "")
        return TraceTrack(_word(pid), _word(tid), " ".join(filter(None, names)), thread)

    def _name(self, entry: TraceEntry) -> None:
        if entry.name in ("process_name", "process_labels", "thread_name") and entry.args is not None:
            name = _word(entry.args.labels if entry.name == "process_labels" else entry.args.name)
            self._budget.take(2 * _TEXT_BYTES + 2 * len(name))
            thread = str(entry.tid) if entry.name == "thread_name" else ""
            self._names[entry.name, str(entry.pid), thread] = name

    def _add_slices(self, entries: list[TraceEntry]) -> None:
        starts, is_timed = _nanoseconds([entry.ts for entry in entries])
        durations, has_duration = _nanoseconds([entry.dur for entry in entries])
        has_duration &= durations >= 0
        if is_timed.any():
            # Entries without a time of their own are written with 0 beside times since 1970 or since the start.
            is_timed &= np.abs(starts - np.median(starts[is_timed])) < _LONGEST_NS
        is_usable = is_timed & has_duration
        if not is_usable.all():
            self._odd["have no usable time"] += int((~is_timed).sum())
            self._odd["have no usable duration"] += int((is_timed & ~has_duration).sum())
            entries = [entry for entry, is_kept in zip(entries, is_usable.tolist(), strict=True) if is_kept]
            starts, durations = starts[is_usable], durations[is_usable]
            if not entries:
                return
        arguments = [entry.args or _NO_ARGUMENTS for entry in entries]
        first = self._slices.rows
        own, older, correlations = _columns(arguments, "external_id", "older_external_id", "correlation")
        words = (self._words.of([getattr(entry, name) for entry in entries]) for name in ("cat", "name"))
        shapes = self._list_codes([told.shapes or told.older_shapes for told in arguments])
        ids = np.where(own == NONE, older, own)
        self._slices.add((starts, durations, *words, self._track_codes(entries), shapes, ids, correlations))
        self._add_device(arguments, first)

    def _add_device(self, arguments: list[Arguments], first: int) -> None:
        rows = [row for row, told in enumerate(arguments, first) if told.device is not None]
        if rows:
            self._budget.take(72 * len(rows))
            found = [arguments[row - first] for row in rows]
            lists = (self._list_codes([getattr(told, name) for told in found]) for name in ("grid", "block"))
            shares = (_floats([getattr(told, name) for told in found]) for name in ("blocks_per_sm", "occupancy"))
            device, registers, shared, size = _columns(found, "device", "registers", "shared_memory", "bytes")
            self._device.add((rows, device, *lists, registers, shared, *shares, size))

    def _add_memory(self, entries: list[TraceEntry]) -> None:
        times, is_timed = _nanoseconds([entry.ts for entry in entries])
        arguments = [entry.args or _NO_ARGUMENTS for entry in entries]
        numbers = _columns(arguments, "address", "allocation", "allocated", "reserved", "device_type", "device_id")
        columns = (times, self._track_codes(entries), *numbers)
        self._memory.add(tuple(np.asarray(column)[is_timed] for column in columns))

    def _track_codes(self, entries: list[TraceEntry]) -> list[int]:
        known = self._tracks
        pairs: list[Any] = [(entry.pid, entry.tid) for entry in entries]
        try:
            missing = set(pairs) - known.keys()
        except TypeError:  # a list or table, where a number is expected
            pairs = [(_word(pid), _word(tid)) for pid, tid in pairs]
            missing = set(pairs) - known.keys()
        if missing:
            self._budget.take(3 * _TEXT_BYTES * len(missing))
            for pair in pairs:
                known.setdefault(pair, len(known))
        return [known[pair] for pair in pairs]

    def _list_codes(self, texts: list[Any]) -> list[int]:
        return self._lists.of([bytes(text) for text in texts])


def _list_text(raw: bytes) -> str:
    """A list as text, written one way; "" of nothing."""
    if raw == _NO_TEXT:
        return ""
    try:
        return json.dumps(json.loads(raw))[:LONGEST_TEXT]
    except (ValueError, RecursionError):
        return raw[:LONGEST_TEXT].decode("utf-8", errors="replace")


def _word(value: object) -> str:
    return "" if value is None else _sound(str(value)[:200])


def _sound(text: str) -> str:
    """Without halves of characters, which no file takes."""
    return text if text.isascii() else text.encode("utf-8", errors="replace").decode()


def _nanoseconds(values: list[Any]) -> tuple[Ints, Any]:
    """Microseconds as whole nanoseconds, exactly as far as they are written, and which of them are times."""
    us = _floats(values)
    is_time = np.isfinite(us) & (np.abs(us) < _LATEST_US)
    us = np.where(is_time, us, 0.0)
    whole = np.floor(us)
    return whole.astype(np.int64) * 1000 + np.rint((us - whole) * 1000).astype(np.int64), is_time


def _floats(values: list[Any]) -> Shares:
    """Numbers; NaN for what is none. Some write them as texts."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return np.array([_number(value) for value in values], dtype=np.float64)


def _ints(values: list[Any]) -> Ints:
    """Whole numbers of 64 bits; NONE for what is none."""
    try:
        return np.array(values, dtype=np.int64)
    except (TypeError, ValueError, OverflowError):
        numbers = [value if isinstance(value, int) else _number(value) for value in values]
        return np.array([int(n) if -(2**63) < n < 2**63 else NONE for n in numbers], dtype=np.int64)


def _columns(arguments: list[Arguments], *names: str) -> list[Ints]:
    return [_ints([getattr(told, name) for told in arguments]) for name in names]


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str) or len(str(value)) > 40:
        return math.nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan
