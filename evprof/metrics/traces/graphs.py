"""What CUDA graphs hide from a profiler: whose kernels those of a replayed graph are, or that there are any."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from evprof.core.rows.trace_columns import TraceColumns
from evprof.core.units import count_text, ms_text
from evprof.metrics.traces.launches import Launches, joined
from evprof.metrics.traces.roles import RUNTIME, slice_roles, text_mask

GRAPH_CALLS = ("cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch")


def graph_launches(trace: TraceColumns) -> np.ndarray:
    roles = slice_roles(trace.texts, trace.slices.categories, trace.slices.names)
    is_graph = text_mask(trace.texts, lambda name: name.startswith(GRAPH_CALLS))
    return np.flatnonzero((roles == RUNTIME) & is_graph[trace.slices.names])


def graph_problems(trace: TraceColumns, launched: Launches) -> Iterator[str]:
    """Sentences about kernels that no operator can be named for, or that were not recorded."""
    calls = graph_launches(trace)
    if not len(calls):
        return
    of_graph = joined(launched.calls, calls) >= 0
    empty = len(calls) - len(set(launched.calls[of_graph].tolist()))
    if empty:
        yield (
            f"{count_text(empty, 'CUDA graph')} of {len(calls):,} were replayed without a kernel in the trace: device "
            "times leave out what they did. Record with --step eager to see it."
        )
    if of_graph.any():
        count = count_text(int(of_graph.sum()), "kernel")
        took = ms_text(int(launched.durations[of_graph].sum()) / 1e6)
        yield (
            f"{count} ({took}) ran in replayed CUDA graphs, where no operator calls them: they count in the overview "
            "and among kernels, not under the operators that they stand for. Record with --step eager to see whose "
            "they are."
        )
