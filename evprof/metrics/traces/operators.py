"""Operators by name, input shapes or call stack: how often, and how long on the host and on devices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evprof.core.rows.blocks import Ints, distinct
from evprof.core.rows.trace_columns import NONE, Shares, TraceColumns
from evprof.metrics.traces.launches import Launches, eligible
from evprof.metrics.traces.roles import Mask
from evprof.metrics.traces.tree import ScopeTree, summed


@dataclass(frozen=True)
class OperatorFigures:
    """Figures of each scope of a tree: "self" is without what lies inside, calls of the runtime included."""

    host_self_ns: Ints
    device_self_ns: Ints
    device_total_ns: Ints
    tensor_self_ns: Ints
    is_eligible: Mask


@dataclass(frozen=True)
class OperatorRow:
    """All calls of an operator, with one list of input shapes or one call stack where it was asked by these.

    `is_eligible`: it can use tensor cores; `tensor_core_share` of its device time alone, None without any.
    """

    name: str
    shapes: str
    stack: str
    calls: int
    host_self_ns: int
    host_total_ns: int
    device_self_ns: int
    device_total_ns: int
    is_eligible: bool
    tensor_core_share: float | None


def operator_figures(trace: TraceColumns, tree: ScopeTree, launched: Launches) -> OperatorFigures:
    device = launched.per_scope(len(tree))
    return OperatorFigures(
        tree.durations - tree.of_children(tree.durations) - launched.host_ns,
        device,
        tree.totals(device),
        launched.per_scope(len(tree), launched.uses_tensor_cores),
        eligible(trace, tree, launched),
    )


def operator_rows(
    trace: TraceColumns,
    tree: ScopeTree,
    figures: OperatorFigures,
    *,
    by_shapes: bool = False,
    by_stacks: bool = False,
    chosen: Mask | None = None,
) -> tuple[OperatorRow, ...]:
    """One row for each name (and shapes, and stack), the most time alone first: on devices, or on the host.

    `chosen` are the scopes that count, all operators without it.
    """
    places = np.flatnonzero(tree.counts if chosen is None else tree.counts & chosen)
    rows = tree.rows[places]
    keys = [tree.names[places]]
    if by_shapes:
        keys.append(trace.slices.shapes[rows].astype(np.int64))
    if by_stacks:
        keys.append(trace.slices.stacks[rows].astype(np.int64))
    groups = distinct(_packed(keys, len(trace.texts)))
    columns = (
        *(figures.host_self_ns, tree.durations, figures.device_self_ns, figures.device_total_ns),
        figures.tensor_self_ns,
    )
    sums = np.stack([summed(groups.which, column[places], len(groups.values)) for column in columns]).T.tolist()
    firsts = rows[groups.firsts]
    counts = np.bincount(groups.which, minlength=len(groups.values))
    can = np.bincount(groups.which, weights=figures.is_eligible[places], minlength=len(groups.values)) > 0
    found = [
        OperatorRow(
            trace.text(trace.slices.names[row]),
            (trace.text(trace.slices.shapes[row]) or "[]") if by_shapes else "",
            trace.text(trace.slices.stacks[row]) if by_stacks else "",
            int(counts[at]),
            *(host_self, host_total, device_self, device_total),
            bool(can[at]),
            tensor_self / device_self if device_self else None,
        )
        for at, (row, (host_self, host_total, device_self, device_total, tensor_self)) in enumerate(
            zip(firsts.tolist(), sums, strict=True)
        )
    ]
    has_device = any(row.device_self_ns for row in found)
    return tuple(sorted(found, key=lambda row: -(row.device_self_ns if has_device else row.host_self_ns)))


def _packed(keys: list[Ints], texts: int) -> Ints:
    packed = keys[0]
    for key in keys[1:]:
        packed = distinct(packed).which * (texts + 1) + (key - NONE)
    return packed


@dataclass(frozen=True)
class KernelRow:
    """All launches of a kernel. Means of blocks and occupancy (0…1) are weighted by time; None: not recorded.

    `operator`, `grid`, `block`, `registers` and `shared_memory` are told where kernels are divided by these; an
    operator of "" is not known.
    """

    name: str
    operator: str
    grid: str
    block: str
    registers: int | None
    shared_memory: int | None
    calls: int
    total_ns: int
    min_ns: int
    max_ns: int
    blocks_per_sm: float | None
    occupancy: float | None
    uses_tensor_cores: bool

    @property
    def mean_ns(self) -> float:
        return self.total_ns / self.calls


def kernel_rows(
    trace: TraceColumns, tree: ScopeTree, launched: Launches, *, by_launch: bool = False
) -> tuple[KernelRow, ...]:
    """One row for each name, or each name, operator and shape of launch; the most time first."""
    rows = launched.rows[launched.is_kernel]
    place = np.full(len(trace.slices), NONE)
    place[trace.device.rows] = np.arange(len(trace.device.rows))
    facts = place[rows]
    scopes = launched.scopes[launched.is_kernel]
    operators = np.where(scopes >= 0, tree.names[scopes], NONE) if len(tree) else np.full(len(rows), NONE)
    names = trace.slices.names[rows].astype(np.int64)
    device = trace.device
    key = distinct(names).which
    if by_launch and len(rows):
        # NONE, the last place, is what no launch was told of.
        told = (device.grids, device.blocks, device.registers, device.shared_memory)
        for column in (operators, *(np.append(values, NONE)[facts] for values in told)):
            more = distinct(column.astype(np.int64))
            key = distinct(key * len(more.values) + more.which).which
    groups = distinct(key)
    durations = launched.durations[launched.is_kernel]
    counts = np.bincount(groups.which, minlength=len(groups.values))
    found = []
    order = np.argsort(groups.which, kind="stable")
    bounds = np.concatenate(([0], np.cumsum(counts)))
    for at in range(len(groups.values)):
        mine = order[bounds[at] : bounds[at + 1]]
        first = mine[0]
        fact = facts[first]
        found.append(
            KernelRow(
                trace.text(names[first]),
                trace.text(operators[first]) if by_launch else "",
                trace.text(device.grids[fact]) if by_launch and fact >= 0 else "",
                trace.text(device.blocks[fact]) if by_launch and fact >= 0 else "",
                _known(device.registers[fact]) if by_launch and fact >= 0 else None,
                _known(device.shared_memory[fact]) if by_launch and fact >= 0 else None,
                len(mine),
                int(durations[mine].sum()),
                int(durations[mine].min()),
                int(durations[mine].max()),
                _weighted(device.blocks_per_sm, facts[mine], durations[mine]),
                _weighted(device.occupancies, facts[mine], durations[mine], 0.01),
                bool(launched.uses_tensor_cores[launched.is_kernel][first]),
            )
        )
    return tuple(sorted(found, key=lambda row: -row.total_ns))


def _weighted(values: Shares, facts: Ints, durations: Ints, scale: float = 1.0) -> float | None:
    known = facts >= 0
    found = values[facts[known]]
    weights = durations[known][~np.isnan(found)]
    found = found[~np.isnan(found)]
    return float((found * weights).sum() / weights.sum() * scale) if weights.sum() else None


def _known(value: int) -> int | None:
    return None if value == NONE else int(value)
