"""Two traces side by side, operator by operator and module by module: what takes longer now, and what came or went."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from operator import add

from evprof.metrics.traces.analysis import TraceAnalysis
from evprof.metrics.traces.modules import ModuleRow
from evprof.metrics.traces.operators import OperatorRow


@dataclass(frozen=True)
class SideFigures:
    """What one trace has of an operator or a module; all 0 where it does not have it."""

    calls: int = 0
    host_self_ns: int = 0
    host_total_ns: int = 0
    device_self_ns: int = 0
    device_total_ns: int = 0

    def __add__(self, other: SideFigures) -> SideFigures:
        return SideFigures(*map(add, astuple(self), astuple(other)))

    @staticmethod
    def of(row: OperatorRow | ModuleRow) -> SideFigures:
        return SideFigures(row.calls, row.host_self_ns, row.host_total_ns, row.device_self_ns, row.device_total_ns)


@dataclass(frozen=True)
class DifferenceRow:
    """One name in the trace that is looked at and in the other; that of a module is its path, `Model/Layer/Linear`."""

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
    """A trace less another: walls, and rows with the largest change first."""

    wall_ns: int
    against_wall_ns: int
    operators: tuple[DifferenceRow, ...]
    modules: tuple[DifferenceRow, ...]


def trace_difference(now: TraceAnalysis, against: TraceAnalysis) -> TraceDifference:
    """What changed from `against` to `now`."""
    return TraceDifference(
        _wall(now),
        _wall(against),
        _rows(_operators(now), _operators(against)),
        _rows(_modules(now.modules), _modules(against.modules)),
    )


def _wall(analysis: TraceAnalysis) -> int:
    return analysis.overview.wall_ns if analysis.overview is not None else 0


def _operators(analysis: TraceAnalysis) -> dict[str, SideFigures]:
    return {row.name: SideFigures.of(row) for row in analysis.operators}


def _modules(rows: Iterable[ModuleRow]) -> dict[str, SideFigures]:
    found: dict[str, SideFigures] = {}
    for name, figures in _paths(rows, ""):
        found[name] = found.get(name, SideFigures()) + figures
    return found


def _paths(rows: Iterable[ModuleRow], above: str) -> Iterator[tuple[str, SideFigures]]:
    for row in rows:
        name = f"{above}/{row.name}" if above else row.name
        yield name, SideFigures.of(row)
        yield from _paths(row.children, name)


def _rows(now: dict[str, SideFigures], against: dict[str, SideFigures]) -> tuple[DifferenceRow, ...]:
    rows = [
        DifferenceRow(name, now.get(name, SideFigures()), against.get(name, SideFigures())) for name in now | against
    ]
    has_device = any(side.device_self_ns for row in rows for side in (row.now, row.against))
    return tuple(sorted(rows, key=lambda row: -abs(row.device_self_delta_ns if has_device else row.host_self_delta_ns)))
