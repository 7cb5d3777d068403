"""Time by `nn.Module`, as modules called each other; traces have them when recorded with `with_stack` and modules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from evprof.core.rows.trace_columns import NONE, TraceColumns
from evprof.metrics.traces.operators import OperatorFigures
from evprof.metrics.traces.tree import ScopeTree, summed

MOST_DEPTH = 100
"""Modules inside modules; what lies deeper counts as calls of the last."""

_PREFIX = "nn.Module: "


@dataclass(frozen=True)
class ModuleRow:
    """All calls of a module at one place of the tree. `operators` are those it calls itself, in all calls together.

    `device_self_ns` is the time of what these launched, "total" with all modules inside.
    """

    name: str
    calls: int
    operators: int
    host_self_ns: int
    host_total_ns: int
    device_self_ns: int
    device_total_ns: int
    children: tuple[ModuleRow, ...]


def module_rows(trace: TraceColumns, tree: ScopeTree, figures: OperatorFigures) -> tuple[ModuleRow, ...]:
    """The outermost modules, in the order in which they were first called."""
    places = np.flatnonzero(tree.modules != NONE)
    group_of: dict[tuple[int, int, int], int] = {}
    group_at = np.full(len(tree), NONE)
    inner = _inner_module(tree)
    depth_of: list[int] = []
    for place in places.tolist():
        above = int(group_at[inner[place]]) if inner[place] >= 0 else NONE
        depth = depth_of[above] + 1 if above >= 0 else 0
        if depth > MOST_DEPTH:
            group_at[place] = above
            continue
        key = (above, int(tree.names[place]), int(tree.modules[place]))
        group_at[place] = group_of.setdefault(key, len(group_of))
        depth_of += [depth] * (len(group_of) - len(depth_of))
    which = group_at[places]
    is_child = tree.counts & (tree.parents >= 0)
    callers = tree.keepers[tree.parents[is_child]]
    every = np.ones(len(tree), dtype=np.int64)
    operators = summed(callers, every[is_child], len(tree))
    launched = figures.device_self_ns + summed(callers, figures.device_total_ns[is_child], len(tree))
    columns = (every, operators, figures.host_self_ns, tree.durations, launched, figures.device_total_ns)
    sums = np.stack([summed(which, values[places], len(group_of)) for values in columns])
    keys = list(group_of)
    inside: dict[int, list[int]] = {}
    for group, (parent, _, _) in enumerate(keys):
        inside.setdefault(parent, []).append(group)
    rows: dict[int, ModuleRow] = {}
    for group in reversed(range(len(keys))):  # children come after their parents
        _, name, _ = keys[group]
        children = tuple(rows[child] for child in inside.get(group, []))
        calls, operators, host_self, host_total, device_self, device_total = sums[:, group].tolist()
        times = host_self, host_total, device_self, device_total
        rows[group] = ModuleRow(trace.text(name).removeprefix(_PREFIX), calls, operators, *times, children)
    return tuple(rows[group] for group in inside.get(NONE, []))


def _inner_module(tree: ScopeTree) -> list[int]:
    """The nearest module around each scope; NONE without one."""
    parents, is_module = tree.parents.tolist(), (tree.modules != NONE).tolist()
    found = [NONE] * len(tree)
    for place, parent in enumerate(parents):
        found[place] = parent if parent < 0 or is_module[parent] else found[parent]
    return found


def indented(modules: Iterable[ModuleRow], depth: int = 0) -> Iterator[ModuleRow]:
    """The modules of a tree, outer before inner, with names indented by depth."""
    for row in modules:
        yield replace(row, name="  " * depth + row.name)
        yield from indented(row.children, depth + 1)
