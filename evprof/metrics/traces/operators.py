"""Operators and kernels by name: how often they ran, and how long on the host and on devices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evprof.core.rows.blocks import Ints, distinct
from evprof.core.rows.trace_columns import NONE, Shares, TraceColumns
from evprof.metrics.traces.launches import Launches
from evprof.metrics.traces.roles import Mask
from evprof.metrics.traces.tree import ScopeTree, summed


@dataclass(frozen=True)
class OperatorFigures:
    """Figures of each scope of a tree: "self" is without what lies inside, calls of the runtime included."""

    host_self_ns: Ints
    device_self_ns: Ints
    device_total_ns: Ints
    tensor_self_ns: Ints
    knows_tensor_cores: bool


@dataclass(frozen=True)
class OperatorRow:
    """All calls of an operator, with one list of input shapes if rows are by these.

    `tensor_core_share` is of its device time alone; None without any, and where kernels' names do not say.
    """

    name: str
    shapes: str
    calls: int
    host_self_ns: int
    host_total_ns: int
    device_self_ns: int
    device_total_ns: int
    tensor_core_share: float | None


def operator_figures(trace: TraceColumns, tree: ScopeTree, launched: Launches) -> OperatorFigures:
    device = launched.per_scope(len(tree))
    return OperatorFigures(
        tree.durations - tree.of_children(tree.durations) - launched.host_ns,
        device,
        tree.totals(device),
        launched.per_scope(len(tree), launched.uses_tensor_cores),
        launched.knows_tensor_cores,
    )


def operator_rows(
    trace: TraceColumns,
    tree: ScopeTree,
    figures: OperatorFigures,
    *,
    by_shapes: bool = False,
    chosen: Mask | None = None,
) -> tuple[OperatorRow, ...]:
    """One row for each name (and shapes), the most time alone first: on devices, or on the host.

    `chosen` are the scopes that count, all operators without it.
    """
    places = np.flatnonzero(tree.counts if chosen is None else tree.counts & chosen)
    rows = tree.rows[places]
    keys = tree.names[places]
    if by_shapes:
        keys = distinct(keys).which * (len(trace.texts) + 1) + (trace.slices.shapes[rows].astype(np.int64) - NONE)
    groups = distinct(keys)
    count = len(groups.values)
    columns = (
        *(figures.host_self_ns, tree.durations, figures.device_self_ns, figures.device_total_ns),
        *(figures.tensor_self_ns, np.ones(len(tree), np.int64)),
    )
    sums = np.stack([summed(groups.which, column[places], count) for column in columns]).T.tolist()
    found = []
    for row, figures_of in zip(rows[groups.firsts].tolist(), sums, strict=True):
        host_self, host_total, device_self, device_total, tensor_self, calls = figures_of
        shapes = (trace.text(trace.slices.shapes[row]) or "[]") if by_shapes else ""
        share = tensor_self / device_self if device_self and figures.knows_tensor_cores else None
        times = host_self, host_total, device_self, device_total
        found.append(OperatorRow(trace.text(trace.slices.names[row]), shapes, calls, *times, share))
    has_device = any(row.device_self_ns for row in found)
    return tuple(sorted(found, key=lambda row: -(row.device_self_ns if has_device else row.host_self_ns)))


@dataclass(frozen=True)
class KernelRow:
    """All launches of a kernel. Means of blocks and occupancy (0…1) are weighted by time; None: not recorded."""

    name: str
    calls: int
    total_ns: int
    min_ns: int
    max_ns: int
    blocks_per_sm: float | None
    occupancy: float | None
    uses_tensor_cores: bool | None

    @property
    def mean_ns(self) -> float:
        return self.total_ns / self.calls


def kernel_rows(trace: TraceColumns, launched: Launches) -> tuple[KernelRow, ...]:
    """One row for each name, the most time first."""
    rows, durations = launched.rows[launched.is_kernel], launched.durations[launched.is_kernel]
    uses_cores = launched.uses_tensor_cores[launched.is_kernel]
    facts = trace.device_places[rows]
    groups = distinct(trace.slices.names[rows].astype(np.int64))
    order = np.argsort(groups.which, kind="stable")
    found = []
    for mine in np.split(order, np.cumsum(np.bincount(groups.which))[:-1]) if len(rows) else ():
        took = durations[mine]
        found.append(
            KernelRow(
                trace.text(trace.slices.names[rows[mine[0]]]),
                len(mine),
                int(took.sum()),
                int(took.min()),
                int(took.max()),
                _weighted(trace.device.blocks_per_sm, facts[mine], took),
                _weighted(trace.device.occupancies, facts[mine], took, 0.01),
                bool(uses_cores[mine[0]]) if launched.knows_tensor_cores else None,
            )
        )
    return tuple(sorted(found, key=lambda row: -row.total_ns))


def _weighted(values: Shares, facts: Ints, durations: Ints, scale: float = 1.0) -> float | None:
    known = facts >= 0
    found = values[facts[known]]
    weights = durations[known][~np.isnan(found)]
    found = found[~np.isnan(found)]
    return float((found * weights).sum() / weights.sum() * scale) if weights.sum() else None
