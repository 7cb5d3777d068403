"""Where the time of a trace's steps went, and how busy its devices were.

Each moment belongs to what stands first in the order kernel, memcpy, memset, communication, runtime, data loader, CPU
exec; what is left is other. A step of a device lasts until its last kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evprof.core.rows.blocks import Ints
from evprof.core.rows.trace_columns import NONE, Shares, TraceColumns
from evprof.metrics.traces.launches import Launches, joined
from evprof.metrics.traces.memory import MOST_DEVICES
from evprof.metrics.traces.roles import (
    ANNOTATION,
    COMMUNICATION,
    DATA_LOADER,
    KERNEL,
    MEMCPY,
    MEMSET,
    OPERATOR,
    PYTHON,
    RUNTIME,
    STEP,
    STEP_PREFIX,
    Mask,
    slice_roles,
)
from evprof.metrics.traces.tree import ScopeTree


@dataclass(frozen=True)
class Ranges:
    starts: Ints
    ends: Ints

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def total_ns(self) -> int:
        return int((self.ends - self.starts).sum())

    def within_ns(self, start: int, end: int) -> int:
        return int(np.maximum(np.minimum(self.ends, end) - np.maximum(self.starts, start), 0).sum())


def union(starts: Ints, ends: Ints) -> Ranges:
    if not len(starts):
        return Ranges(starts, ends)
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    begins = np.ones(len(starts), dtype=bool)
    begins[1:] = starts[1:] > reach[:-1]
    places = np.flatnonzero(begins)
    return Ranges(starts[places], reach[np.append(places[1:] - 1, len(starts) - 1)])


def shared_out(layers: list[Ranges], steps: list[tuple[int, int]]) -> Ints:
    """How the time of each step is shared among layers: each moment belongs to the first layer that covers it.

    (steps, layers + 1) in ns; the last column is what no layer covers. Rows sum to the steps' lengths.
    """
    moments = [
        np.array(steps, dtype=np.int64).ravel(),
        *(side for layer in layers for side in (layer.starts, layer.ends)),
    ]
    edges = np.unique(np.concatenate(moments))
    owner = np.full(len(edges) - 1 if len(edges) else 0, len(layers))
    for place in reversed(range(len(layers))):
        owner[covered(layers[place], edges)] = place
    lengths = np.diff(edges)
    found = np.zeros((len(steps), len(layers) + 1), dtype=np.int64)
    bounds = np.searchsorted(edges, np.array(steps, dtype=np.int64))
    for place in range(len(layers) + 1):
        passed = np.concatenate(([0], np.cumsum(np.where(owner == place, lengths, 0))))
        found[:, place] = passed[bounds[:, 1]] - passed[bounds[:, 0]]
    return found


def covered(ranges: Ranges, edges: Ints) -> npt.NDArray[np.bool_]:
    """Which intervals between edges the stretches cover; all their ends are edges."""
    change = np.zeros(len(edges), dtype=np.int64)
    np.add.at(change, np.searchsorted(edges, ranges.starts), 1)
    np.add.at(change, np.searchsorted(edges, ranges.ends), -1)
    return np.cumsum(change)[:-1] > 0


def levels(starts: Ints, ends: Ints, values: Shares) -> tuple[Ints, Shares]:
    """The sum of the values of all stretches that cover a moment: edges, and the level from each edge to the next."""
    times = np.concatenate((starts, ends))
    order = np.argsort(times, kind="stable")
    edges = times[order]
    level = np.cumsum(np.concatenate((values, -values))[order])
    depth = np.cumsum(np.concatenate((np.ones(len(starts)), -np.ones(len(ends))))[order])
    return edges, np.where(depth > 0, level, 0.0)


CATEGORIES = ("Kernel", "Memcpy", "Memset", "Communication", "Runtime", "DataLoader", "CPU exec", "Other")
"""In order of priority."""

_LAYERS: tuple[tuple[int, ...], ...] = (
    (KERNEL,),
    (MEMCPY,),
    (MEMSET,),
    (COMMUNICATION,),
    (RUNTIME,),
    (DATA_LOADER,),
    (PYTHON, OPERATOR, ANNOTATION),
)

_FEWER_KERNELS = 0.8
"""A last step that launched less than this share of the one before was cut off by the profiler's end."""


@dataclass(frozen=True)
class CategoryTime:
    """One category of all steps together; `share` of their time, None where they have none."""

    name: str
    ns: int
    share: float | None


@dataclass(frozen=True)
class TraceStep:
    """A step: its name, when it began, how long it took, and how much of that each of CATEGORIES has."""

    name: str
    start_ns: int
    duration_ns: int
    category_ns: tuple[int, ...]


@dataclass(frozen=True)
class DeviceUse:
    """How a device was used from the first step's beginning to the last one's end; None where it was not recorded.

    `busy` is the share of the time with a kernel on it, `sm_efficiency` that of multiprocessors at work, by blocks,
    `occupancy` that of a kernel's warps, `tensor_cores` the share of kernel time in kernels that use them.
    """

    device: int
    name: str
    busy: float
    kernels: int
    kernel_ns: int
    sm_efficiency: float | None
    occupancy: float | None
    tensor_cores: float | None


@dataclass(frozen=True)
class TraceOverview:
    """All steps: their time by category, each of them, and the devices. Without marked steps there is one, named ""."""

    wall_ns: int
    categories: tuple[CategoryTime, ...]
    steps: tuple[TraceStep, ...]
    devices: tuple[DeviceUse, ...]
    dropped_steps: int


def overview(trace: TraceColumns, tree: ScopeTree, launched: Launches) -> TraceOverview | None:
    """The overview; None of a trace without slices that take part in it."""
    slices = trace.slices
    roles = slice_roles(trace.texts, slices.categories, slices.names)
    roles[launched.rows[_is_shared(trace, launched)]] = COMMUNICATION
    named = _steps(trace, roles)
    if not named:
        return None
    steps, dropped = _on_devices(trace, launched, roles, [step[1:] for step in named])
    chosen = [np.isin(roles, wanted) for wanted in _LAYERS]
    layers = [union(slices.starts[rows], trace.ends[rows]) for rows in chosen]
    shares = shared_out(layers, steps)
    wall = int(shares.sum())
    start, end = steps[0][0], max(steps[-1][1], steps[0][0])
    return TraceOverview(
        wall,
        tuple(
            CategoryTime(name, int(ns), int(ns) / wall if wall else None)
            for name, ns in zip(CATEGORIES, shares.sum(axis=0).tolist(), strict=True)
        ),
        tuple(
            TraceStep(name, first, last - first, tuple(row))
            for (name, _, _), (first, last), row in zip(named, steps, shares.tolist(), strict=False)
        ),
        _devices(trace, launched, tree, start, end),
        dropped,
    )


def _is_shared(trace: TraceColumns, launched: Launches) -> Mask:
    """Which device work is that of a collective: it has the id of one."""
    roles = slice_roles(trace.texts, trace.slices.categories, trace.slices.names)
    shared = np.flatnonzero(roles == COMMUNICATION)
    ids = trace.slices.external_ids
    found: Mask = launched.is_kernel & (joined(ids[launched.rows], ids[shared]) != NONE)
    return found


def _steps(trace: TraceColumns, roles: np.ndarray) -> list[tuple[str, int, int]]:
    """Name, beginning and end of each marked step; of the whole where none is marked."""
    slices, ends = trace.slices, trace.ends
    marked = np.flatnonzero(roles == STEP)
    marked = marked[np.argsort(slices.starts[marked], kind="stable")]
    if len(marked):
        return [
            (trace.text(slices.names[row]).removeprefix(STEP_PREFIX), int(slices.starts[row]), int(ends[row]))
            for row in marked.tolist()
        ]
    for among in ((PYTHON, OPERATOR), (ANNOTATION, KERNEL, MEMCPY, MEMSET, RUNTIME)):
        found = np.flatnonzero(np.isin(roles, among))
        if len(found):
            return [("", int(slices.starts[found].min()), int(ends[found].max()))]
    return []


def _on_devices(
    trace: TraceColumns, launched: Launches, roles: np.ndarray, steps: list[tuple[int, int]]
) -> tuple[list[tuple[int, int]], int]:
    """Steps until the end of what they launched, and how many at the end were not recorded whole."""
    starts, ends = trace.slices.starts, trace.ends
    has_call = launched.calls >= 0
    begun, done = starts[launched.calls], ends[launched.calls]
    first = np.array([step[0] for step in steps])
    at = np.searchsorted(first, begun, side="right") - 1
    inside = has_call & (at >= 0) & (done <= np.array([step[1] for step in steps])[np.maximum(at, 0)])
    if not inside.any():
        return steps, 0
    counts = np.bincount(at[inside], minlength=len(steps))
    last = np.full(len(steps), -(2**62))
    np.maximum.at(last, at[inside], ends[launched.rows[inside]])
    before = steps[0][0]
    if counts[0]:
        earliest = starts[launched.rows[inside & (at == 0)]].min()
        earlier = ends[launched.rows[~inside]]
        before = max(before, int(earlier[earlier < earliest].max(initial=before)))
    found = []
    for (begins, ends_host), count, until in zip(steps, counts.tolist(), last.tolist(), strict=True):
        start = max(begins, before)
        before = max(ends_host, start, until if count else start)
        found.append((start, before))
    keep = int(np.flatnonzero(counts)[-1]) + 1
    if keep > 1 and counts[keep - 2] * _FEWER_KERNELS > counts[keep - 1]:
        keep -= 1
    keep = keep if len(steps) > 1 else 1
    return found[:keep], len(steps) - keep


def _devices(trace: TraceColumns, launched: Launches, tree: ScopeTree, start: int, end: int) -> tuple[DeviceUse, ...]:
    place = trace.device_places
    numbers = np.append(trace.device.devices, NONE)[place[launched.rows]]
    found = []
    for number in sorted(set(numbers[launched.is_kernel].tolist()) - {NONE})[:MOST_DEVICES]:
        chosen = launched.is_kernel & (numbers == number)
        rows = launched.rows[chosen]
        starts, ends = trace.slices.starts[rows], trace.ends[rows]
        facts = place[rows]
        of_operators = chosen & (launched.scopes >= 0)
        of_operators[of_operators] = tree.counts[launched.scopes[of_operators]]
        known = int(launched.durations[of_operators].sum())
        name = next((known.name for known in trace.head.devices if known.number == number), "")
        found.append(
            DeviceUse(
                number,
                name,
                union(starts, ends).within_ns(start, end) / (end - start) if end > start else 0.0,
                len(rows),
                int((ends - starts).sum()),
                _efficiency(starts, ends, trace.device.blocks_per_sm[facts], start, end),
                _occupancy(starts, ends, trace.device.occupancies[facts], start, end),
                int(launched.durations[of_operators & launched.uses_tensor_cores].sum()) / known
                if known and launched.knows_tensor_cores
                else None,
            )
        )
    return tuple(found)


def _efficiency(starts: Ints, ends: Ints, blocks: np.ndarray, start: int, end: int) -> float | None:
    """Blocks per multiprocessor of all kernels at work, at most 1, averaged over the time."""
    known = blocks > 0
    if not known.any() or end <= start:
        return None
    edges, level = levels(starts[known], ends[known], blocks[known])
    edges = np.clip(edges, start, end)
    return float((np.diff(edges) * np.minimum(level[:-1], 1.0)).sum() / (end - start))


def _occupancy(starts: Ints, ends: Ints, occupancies: np.ndarray, start: int, end: int) -> float | None:
    """The mean over kernel time, 0…1."""
    known = occupancies >= 0
    lengths = np.maximum(np.minimum(ends, end) - np.maximum(starts, start), 0)[known]
    return float((lengths * occupancies[known]).sum() / lengths.sum() / 100) if lengths.sum() else None
