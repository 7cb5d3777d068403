"""What memory did: totals over time by device, every allocation with who made it, and what each operator kept.

An allocation belongs to the innermost operator that runs on its thread; a release to whoever made what is released.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evprof.core.rows.blocks import Ints, distinct
from evprof.core.rows.trace_columns import NONE, TraceColumns
from evprof.metrics.traces.tree import ScopeTree, summed

MOST_ALLOCATIONS = 5_000
"""The largest ones are listed."""

MOST_DEVICES = 64
"""Of one machine: those that a trace names beyond are left out."""

_CPU, _GPU = 0, 1


@dataclass(frozen=True)
class MemoryCurve:
    """The allocator's totals of one device after each of its steps, in the order of time."""

    device: str
    times_ns: Ints
    allocated_bytes: Ints
    reserved_bytes: Ints

    @property
    def peak_bytes(self) -> int:
        return int(self.allocated_bytes.max(initial=0))

    @property
    def peak_at_ns(self) -> int:
        return int(self.times_ns[int(self.allocated_bytes.argmax())])

    @property
    def peak_reserved_bytes(self) -> int:
        return int(self.reserved_bytes.max(initial=0))


@dataclass(frozen=True)
class Allocation:
    """Memory taken and given back; a time outside the trace is None. `operator` is "" if it is unknown."""

    device: str
    operator: str
    bytes: int
    allocated_ns: int | None
    released_ns: int | None

    @property
    def held_ns(self) -> int | None:
        return None if self.allocated_ns is None or self.released_ns is None else self.released_ns - self.allocated_ns


@dataclass(frozen=True)
class OperatorMemory:
    """What all calls of an operator did to a device's memory; "total" with all operators inside, increases less
    releases."""

    device: str
    name: str
    calls: int
    self_increase_bytes: int
    total_increase_bytes: int
    self_allocations: int
    total_allocations: int
    self_allocated_bytes: int
    total_allocated_bytes: int


@dataclass(frozen=True)
class MemoryFigures:
    """A trace's memory. `curves` are by device, GPUs first; `operators` those that touched it, the most kept first.

    `allocations` are the largest ones in the order of time, of `allocation_count`.
    """

    curves: tuple[MemoryCurve, ...]
    allocations: Sequence[Allocation]
    allocation_count: int
    operators: tuple[OperatorMemory, ...]


def memory_figures(trace: TraceColumns, tree: ScopeTree) -> MemoryFigures:
    """Everything about memory; empty where the trace has none (`profile_memory` was off)."""
    order = np.argsort(trace.memory.times, kind="stable")
    devices = _devices(trace)[order]
    names = _device_names(trace)
    scopes = tree.innermost(trace.memory.tracks[order].astype(np.int64), trace.memory.times[order])
    is_known = scopes >= 0
    is_known[is_known] = tree.counts[scopes[is_known]]
    scopes = np.where(is_known, scopes, NONE)
    pairs = _paired(trace.memory.addresses[order], trace.memory.bytes[order])
    found = sorted(names.items(), key=lambda item: (not item[1].startswith("GPU"), item[1]))[:MOST_DEVICES]
    return MemoryFigures(
        tuple(
            curve for device, name in found if len((curve := _curve(trace, order[devices == device], name)).times_ns)
        ),
        _allocations(trace, tree, order, pairs, scopes),
        len(pairs),
        tuple(
            row
            for device, name in found
            for row in _by_operator(
                trace, tree, trace.memory.bytes[order], np.where(devices == device, scopes, NONE), device=name
            )
        ),
    )


def _devices(trace: TraceColumns) -> Ints:
    return np.clip(trace.memory.device_types, -1, 4095) * 4096 + np.clip(trace.memory.devices, -1, 4094) + 1


def _device_names(trace: TraceColumns) -> dict[int, str]:
    memory = trace.memory
    keys = _devices(trace).tolist()
    seen = set(zip(keys, memory.device_types.tolist(), memory.devices.tolist(), strict=True))
    words = {_CPU: "CPU", _GPU: "GPU {}"}
    return {key: words.get(kind, f"device {{}} of kind {kind}").format(number) for key, kind, number in seen}


def _curve(trace: TraceColumns, rows: Ints, name: str) -> MemoryCurve:
    memory = trace.memory
    rows = rows[(memory.allocated[rows] != NONE) & (memory.reserved[rows] != NONE)]
    return MemoryCurve(name, memory.times[rows], memory.allocated[rows], memory.reserved[rows])


def _allocations(trace: TraceColumns, tree: ScopeTree, order: Ints, pairs: Ints, scopes: Ints) -> list[Allocation]:
    """The largest ones, in the order of time."""
    times, sizes, names = trace.memory.times[order], trace.memory.bytes[order], _device_names(trace)
    devices = _devices(trace)[order]
    largest = np.argsort(-np.abs(sizes[pairs.max(axis=1)]), kind="stable")[:MOST_ALLOCATIONS]
    found = []
    for taken, given in pairs[np.sort(largest)].tolist():
        row = taken if taken >= 0 else given
        scope = int(scopes[row]) if taken >= 0 else NONE
        found.append(
            Allocation(
                names[int(devices[row])],
                trace.text(int(tree.names[scope])) if scope >= 0 else "",
                abs(int(sizes[row])),
                int(times[taken]) if taken >= 0 else None,
                int(times[given]) if given >= 0 else None,
            )
        )
    return found


def _paired(addresses: Ints, sizes: Ints) -> Ints:
    """(pairs, 2) places of allocations and of their releases, NONE where one is missing, in the order of the first."""
    order = np.argsort(addresses, kind="stable")
    is_taken = sizes[order] > 0
    follows = np.zeros(len(order), dtype=bool)
    follows[1:] = (addresses[order][1:] == addresses[order][:-1]) & is_taken[:-1] & ~is_taken[1:]
    partner = np.full(len(order), NONE)
    places = np.flatnonzero(follows)
    partner[places - 1] = order[places]
    firsts = np.flatnonzero(~follows)
    pairs = np.stack(
        (
            np.where(is_taken[firsts], order[firsts], NONE),
            np.where(is_taken[firsts], partner[firsts], order[firsts]),
        ),
        axis=1,
    )
    found: Ints = pairs[np.argsort(pairs.max(axis=1) if not len(pairs) else order[firsts], kind="stable")]
    return found


def _by_operator(
    trace: TraceColumns, tree: ScopeTree, sizes: Ints, scopes: Ints, *, device: str
) -> list[OperatorMemory]:
    """Of one device: the bytes of all changes, and the scopes of its own, NONE for those of others."""
    mine = scopes >= 0
    sizes = sizes[mine]
    changes = (sizes, np.maximum(sizes, 0), (sizes > 0).astype(np.int64))
    own = [summed(scopes[mine], values, len(tree)) for values in changes]
    totals = [tree.totals(column) for column in own]
    counted = np.flatnonzero(tree.counts)
    groups = distinct(tree.names[counted])
    sums = np.stack([summed(groups.which, values[counted], len(groups.values)) for values in (*own, *totals)])
    calls = np.bincount(groups.which, minlength=len(groups.values))
    rows = [
        OperatorMemory(
            device,
            trace.text(int(groups.values[at])),
            int(calls[at]),
            *(int(sums[place, at]) for place in (0, 3, 2, 5, 1, 4)),
        )
        for at in np.flatnonzero(sums.any(axis=0)).tolist()
    ]
    return sorted(rows, key=lambda row: -row.self_increase_bytes)
