"""What an operator-level trace knows of any stretch of time: its operators, and the time in which none of them ran."""

from __future__ import annotations

from dataclasses import dataclass

from evprof.metrics.traces.analysis import TraceAnalysis
from evprof.metrics.traces.operators import OperatorRow
from evprof.metrics.traces.overview import union


@dataclass(frozen=True)
class TraceStretch:
    """Operators that began between two times, the most time alone first; `uncovered_ns` is what no operator covers."""

    operators: tuple[OperatorRow, ...]
    uncovered_ns: int


def trace_stretch(analysis: TraceAnalysis, start_ns: int, end_ns: int) -> TraceStretch:
    tree = analysis.tree
    mine = tree.is_operator & (tree.starts < end_ns) & (tree.ends > start_ns)
    covered = union(tree.starts[mine], tree.ends[mine]).within_ns(start_ns, end_ns)
    return TraceStretch(analysis.operators_between(start_ns, end_ns), max(end_ns - start_ns, 0) - covered)
