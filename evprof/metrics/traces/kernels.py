"""Kernels by name, or by what launched them and how: how often and how long, and how well they fill a device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evprof.core.rows.distinct import Ints, distinct
from evprof.core.rows.trace_columns import NONE, Shares, TraceColumns
from evprof.metrics.traces.launches import Launches
from evprof.metrics.traces.tree import ScopeTree


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
