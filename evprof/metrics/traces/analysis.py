"""All figures of a trace, each computed at its first use and kept, and the advice that follows from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from evprof.core.rows.trace_columns import TraceColumns
from evprof.core.units import count_text, percent_text
from evprof.metrics.traces.launches import Launches, graph_launches, graph_problems, launches
from evprof.metrics.traces.memory import MemoryFigures, memory_figures
from evprof.metrics.traces.modules import ModuleRow, module_rows
from evprof.metrics.traces.operators import (
    KernelRow,
    OperatorFigures,
    OperatorRow,
    kernel_rows,
    operator_figures,
    operator_rows,
)
from evprof.metrics.traces.overview import TraceOverview, overview
from evprof.metrics.traces.roles import Mask
from evprof.metrics.traces.stages import TraceStage, trace_stages
from evprof.metrics.traces.tree import ScopeTree, scope_tree

IDLE_SHARE = 0.5
"""A device that is idle for longer waits for its host."""

NOTED_SHARE = 0.1
"""What takes less of the time is not worth a sentence."""


@dataclass(frozen=True)
class TraceAdvice:
    """A sentence, the switch it is about (`step`), the value to try (`graphs`), and the share 0…1 that it follows from.

    `option` is how the command line writes it; values are as `evprof run` takes them.
    """

    sentence: str
    switch: str
    value: str
    share: float

    @property
    def option(self) -> str:
        """`--step graphs`."""
        return f"--{self.switch.replace('_', '-')} {self.value}"


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
    def modules(self) -> tuple[ModuleRow, ...]:
        """The tree of `nn.Module` calls."""
        return module_rows(self.trace, self.tree, self.figures)

    @cached_property
    def stages(self) -> tuple[TraceStage, ...]:
        return trace_stages(self.trace, self.launched)

    @cached_property
    def advice(self) -> tuple[TraceAdvice, ...]:
        """What could make it faster or smaller, each with the switch that does it; the largest share first."""
        return _advice(self)

    @cached_property
    def problems(self) -> tuple[str, ...]:
        found = [*self.trace.problems, *graph_problems(self.trace, self.launched)]
        if crossing := self.tree.crossing:
            found.append(
                f"{count_text(crossing, 'scope')} begin in one scope of their thread and end after it; "
                "they are left out."
            )
        if self.overview is not None and (dropped := self.overview.dropped_steps):
            found.append(
                f"The last {count_text(dropped, 'step')} launched too few kernels to have been recorded whole and are "
                "left out of the overview."
            )
        return tuple(found)


def _advice(analysis: TraceAnalysis) -> tuple[TraceAdvice, ...]:
    """All that holds for a trace, the largest share first."""
    found = [one for rule in (_idle_devices, _operators) for one in rule(analysis)]
    return tuple(sorted(found, key=lambda one: -one.share))


def _idle_devices(analysis: TraceAnalysis) -> Iterator[TraceAdvice]:
    seen = analysis.overview
    if seen is None or not seen.wall_ns:
        return
    shares = {category.name: category.share or 0.0 for category in seen.categories}
    busy_host = shares["Runtime"] + shares["CPU exec"]
    for device in seen.devices:
        idle = 1 - device.busy
        if idle <= IDLE_SHARE or busy_host < NOTED_SHARE:
            continue
        replays = len(graph_launches(analysis.trace)) > 0
        value, how = ("fused", "does a layer in few kernels") if replays else ("graphs", "launches a step as one")
        said = (
            f"GPU {device.device} is idle {percent_text(idle)} of the time, and the host alone takes "
            f"{percent_text(busy_host)} to launch {device.kernels / len(seen.steps):,.0f} kernels a step: --step "
            f"{value} {how}."
        )
        yield TraceAdvice(said, "step", value, idle)


def _operators(analysis: TraceAnalysis) -> Iterator[TraceAdvice]:
    """Of operators that take much of the time: without tensor cores, joining tensors, and with plain attention."""
    rows = analysis.operators
    has_device = any(row.device_self_ns for row in rows)
    whole = sum(row.device_self_ns if has_device else row.host_self_ns for row in rows)
    joins = sum(row.device_self_ns if has_device else row.host_self_ns for row in rows if row.name == "aten::cat")
    attends = sum(
        row.device_total_ns if has_device else row.host_total_ns
        for row in rows
        if row.name == "aten::_scaled_dot_product_attention_math"
    )
    kernels = sum(row.total_ns for row in analysis.kernels)
    has_cores = all(device.compute is None or device.compute[0] >= 7 for device in analysis.trace.head.devices)
    uses_cores = any(row.uses_tensor_cores for row in analysis.kernels)
    could = sum(row.device_self_ns for row in rows if row.is_eligible) if has_cores and not uses_cores else 0
    for part, total, switch, value, said in (
        (could, kernels, "dtype", "bfloat16", _NO_TENSOR_CORES),
        (joins, whole, "cache", "static", _GROWING_CACHE),
        (attends, whole, "attention", "flash", _PLAIN_ATTENTION),
    ):
        share = part / total if total else 0.0
        if share >= NOTED_SHARE:
            yield TraceAdvice(said.format(percent_text(share)), switch, value, share)


_NO_TENSOR_CORES = (
    "No kernel uses tensor cores, though operators that can take {} of the kernels' time: --dtype bfloat16 lets them."
)
_GROWING_CACHE = (
    "Joining tensors (aten::cat) takes {} of the operators' time, as a cache does that grows: --cache static is "
    "written in place."
)
_PLAIN_ATTENTION = "Attention takes its plain path for {} of the operators' time: --attention flash is one kernel."
