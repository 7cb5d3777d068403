"""Two traces side by side, operator by operator: what takes longer now, and what came or went."""

from __future__ import annotations

from dataclasses import dataclass

from evprof.metrics.traces.analysis import TraceAnalysis


@dataclass(frozen=True)
class SideFigures:
    """An operator in one trace; all 0 in a trace without it."""

    calls: int = 0
    host_self_ns: int = 0
    host_total_ns: int = 0
    device_self_ns: int = 0
    device_total_ns: int = 0


@dataclass(frozen=True)
class DifferenceRow:
    name: str
    now: SideFigures
    against: SideFigures

    @property
    def host_self_delta_ns(self) -> int:
        return self.now.host_self_ns - self.against.host_self_ns

    @property
    def device_self_delta_ns(self) -> int:
        return self.now.device_self_ns - self.against.device_self_ns


@dataclass(frozen=True)
class TraceDifference:
    """A trace less another: walls, and operators with the largest change first."""

    wall_ns: int
    against_wall_ns: int
    operators: tuple[DifferenceRow, ...]


def trace_difference(now: TraceAnalysis, against: TraceAnalysis) -> TraceDifference:
    ours, others = _operators(now), _operators(against)
    none = SideFigures()
    rows = [DifferenceRow(name, ours.get(name, none), others.get(name, none)) for name in ours | others]
    has_device = any(side.device_self_ns for row in rows for side in (row.now, row.against))
    rows.sort(key=lambda row: -abs(row.device_self_delta_ns if has_device else row.host_self_delta_ns))
    return TraceDifference(_wall(now), _wall(against), tuple(rows))


def _wall(analysis: TraceAnalysis) -> int:
    return analysis.overview.wall_ns if analysis.overview is not None else 0


def _operators(analysis: TraceAnalysis) -> dict[str, SideFigures]:
    return {
        row.name: SideFigures(row.calls, row.host_self_ns, row.host_total_ns, row.device_self_ns, row.device_total_ns)
        for row in analysis.operators
    }
