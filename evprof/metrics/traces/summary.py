"""A trace in a few lines, for `evprof inspect`."""

from __future__ import annotations

from collections import Counter
from typing import Any

from evprof.core.rows.trace_columns import TraceColumns
from evprof.core.units import ms_from_ns
from evprof.metrics.traces.analysis import TraceAnalysis

MOST_CATEGORIES = 1000
"""Further ones are counted together: a profiler writes a dozen."""

OTHER_CATEGORIES = "(others)"


def trace_summary(analysis: TraceAnalysis) -> dict[str, Any]:
    """Entries, the time they span (None without slices), slices by category, steps, and where the time went."""
    seen = analysis.overview
    return {
        "entries": analysis.trace.entries,
        "duration_ms": ms_from_ns(analysis.end_ns - analysis.start_ns) if len(analysis.trace.slices) else None,
        "categories": slices_by_category(analysis.trace),
        "steps": sum(bool(step.name) for step in seen.steps) if seen is not None else 0,
        "recorded": list(analysis.trace.head.recorded),
        "wall_ms": None if seen is None else ms_from_ns(seen.wall_ns),
        "time_ms": {} if seen is None else {one.name: ms_from_ns(one.ns) for one in seen.categories},
        "devices": [] if seen is None else [use.name or f"GPU {use.device}" for use in seen.devices],
        "kernels": sum(use.kernels for use in seen.devices) if seen is not None else 0,
        "allocations": len(analysis.memory.allocations),
    }


def slices_by_category(trace: TraceColumns) -> dict[str, int]:
    """How many slices each category has; beyond MOST_CATEGORIES they are counted together."""
    counts = Counter(trace.slices.categories.tolist())
    found = {trace.text(code): count for code, count in list(counts.items())[:MOST_CATEGORIES]}
    rest = counts.total() - sum(found.values())
    return found | ({OTHER_CATEGORIES: rest} if rest else {})
