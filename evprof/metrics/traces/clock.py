"""A trace beside the run that was traced: the offset of their clocks, and the operators of a stretch of time.

A trace counts from the wall clock, a run from the monotonic clock of the machine. The stages of the run are in both:
each is in the trace within what the run recorded, which bounds the offset from both sides.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from evprof.core.run_log import RunLog
from evprof.metrics.traces.analysis import TraceAnalysis
from evprof.metrics.traces.operators import OperatorRow
from evprof.metrics.traces.overview import union
from evprof.metrics.traces.stages import TraceStage


@dataclass(frozen=True)
class TraceClock:
    """`run = trace + offset_ns`, true within ± `uncertainty_ns` by the `pairs` of times that stand in both.

    Times of a run are ns of the monotonic clock, as in its records; `zero_ns` is the run's zero there.
    """

    offset_ns: int
    uncertainty_ns: int
    pairs: int
    zero_ns: int

    def run_ns(self, trace_ns: int) -> int:
        return trace_ns + self.offset_ns

    def trace_ns(self, run_ns: int) -> int:
        return run_ns - self.offset_ns


def trace_clock(run: RunLog, analysis: TraceAnalysis) -> TraceClock | None:
    """How the clocks of a run and of its trace meet; None where they have no stage in common."""
    noted: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for span in sorted(run.stages(), key=lambda span: span.host_start_ns):
        if span.host_end_ns is not None:
            noted[span.name].append((span.host_start_ns, span.host_end_ns))
    earliest: list[int] = []
    latest: list[int] = []
    traced: dict[str, list[TraceStage]] = defaultdict(list)
    for stage in analysis.stages:
        traced[stage.name].append(stage)
    for name, stages in traced.items():
        if len(stages) == len(noted[name]):
            for stage, (start, end) in zip(stages, noted[name], strict=True):
                earliest.append(start - stage.start_ns)
                latest.append(end - stage.end_ns)
    if not earliest:
        return None
    # A stage's name is written into the trace after its beginning was noted and closed before its end is: what comes
    # between may take milliseconds somewhere, but never the other way round.
    low, high = max(earliest), min(latest)
    zero = run.info.start_ns
    uncertainty = (abs(high - low) + 1) // 2
    return TraceClock((low + high) // 2, uncertainty, 2 * len(earliest), zero if zero is not None else low)


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
