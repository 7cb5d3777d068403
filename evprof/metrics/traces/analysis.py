"""All figures of a trace, each computed at its first use and kept."""

from __future__ import annotations

from collections import Counter
from functools import cached_property

from evprof.core.rows.trace_columns import TraceColumns
from evprof.core.units import count_text
from evprof.metrics.traces.launches import Launches, graph_problems, launches
from evprof.metrics.traces.memory import MemoryFigures, memory_figures
from evprof.metrics.traces.operators import (
    KernelRow,
    OperatorFigures,
    OperatorRow,
    kernel_rows,
    operator_figures,
    operator_rows,
)
from evprof.metrics.traces.overview import TraceOverview, overview
from evprof.metrics.traces.roles import Mask, unknown_slices
from evprof.metrics.traces.stages import TraceStage, trace_stages
from evprof.metrics.traces.tree import ScopeTree, scope_tree


class TraceAnalysis:
    """The figures of one trace. Use it in one thread at a time; the first look at a figure takes up to a second."""

    def __init__(self, trace: TraceColumns) -> None:
        self._trace = trace

    @property
    def trace(self) -> TraceColumns:
        return self._trace

    @cached_property
    def tree(self) -> ScopeTree:
        return scope_tree(self.trace)

    @cached_property
    def launched(self) -> Launches:
        return launches(self.trace, self.tree)

    @cached_property
    def figures(self) -> OperatorFigures:
        return operator_figures(self.trace, self.tree, self.launched)

    @cached_property
    def start_ns(self) -> int:
        """When the first slice or allocation begins, on the trace's clock."""
        firsts = [times.min() for times in (self.trace.slices.starts, self.trace.memory.times) if len(times)]
        return int(min(firsts, default=0))

    @cached_property
    def end_ns(self) -> int:
        lasts = [times.max() for times in (self.trace.ends, self.trace.memory.times) if len(times)]
        return int(max(lasts, default=0))

    @cached_property
    def overview(self) -> TraceOverview | None:
        """Time by category and step, use of devices; None of a trace without operators and device work."""
        return overview(self.trace, self.tree, self.launched)

    @cached_property
    def operators(self) -> tuple[OperatorRow, ...]:
        return operator_rows(self.trace, self.tree, self.figures)

    @cached_property
    def operators_by_shapes(self) -> tuple[OperatorRow, ...]:
        return operator_rows(self.trace, self.tree, self.figures, by_shapes=True)

    def operators_between(self, start_ns: int, end_ns: int) -> tuple[OperatorRow, ...]:
        """Operators that began in a stretch of the trace's time, with all that they launched, whenever it ran."""
        begun: Mask = (self.tree.starts >= start_ns) & (self.tree.starts < end_ns)
        return operator_rows(self.trace, self.tree, self.figures, chosen=begun)

    @cached_property
    def kernels(self) -> tuple[KernelRow, ...]:
        return kernel_rows(self.trace, self.launched)

    @cached_property
    def slice_counts(self) -> dict[str, int]:
        """The number of slices of each category, in the order in which these occur."""
        counts = Counter(self.trace.slices.categories.tolist())
        return {self.trace.text(code): count for code, count in counts.items()}

    @cached_property
    def memory(self) -> MemoryFigures:
        return memory_figures(self.trace, self.tree)

    @cached_property
    def stages(self) -> tuple[TraceStage, ...]:
        return trace_stages(self.trace, self.launched)

    @cached_property
    def problems(self) -> tuple[str, ...]:
        found = [*self.trace.problems, *graph_problems(self.trace, self.launched)]
        if crossing := self.tree.crossing:
            found.append(
                f"{count_text(crossing, 'scope')} left out: each begins in another scope of its thread and ends "
                "after it."
            )
        if unknown := unknown_slices(self.trace.texts, self.trace.slices.categories):
            found.append(f"{unknown:,} of its entries have a category that evprof does not know and are in no table.")
        if self.overview is not None and (dropped := self.overview.dropped_steps):
            found.append(
                f"The last {count_text(dropped, 'step')} launched too few kernels to have been recorded whole and are "
                "left out of the overview."
            )
        return tuple(found)
