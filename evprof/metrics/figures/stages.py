"""Where a run's time went: stage durations, their union, shares and what no stage covers.

Settled times only; a stage that is still running, or whose device times are not known yet, has no duration. Pictures of
a live run draw provisional spans themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from evprof.core.records import DRAFT, STAGES, TARGET
from evprof.core.rows.spans import Span
from evprof.core.run_log import RunLog
from evprof.core.units import ms_from_ns
from evprof.metrics.arithmetic.energy_curve import Interval, merged
from evprof.metrics.figures.kept import kept

END_TO_END, WITHOUT_LOAD, MODEL_ONLY = "end-to-end", "without-load", "model-only"
BASES = (END_TO_END, WITHOUT_LOAD, MODEL_ONLY)
"""What a total counts: the whole wall; the wall less the load stages; or only vision, prefill and decode."""

MODEL_STAGES = ("vision", "prefill", "decode")
"""Stages in which a model computes."""


@dataclass(frozen=True)
class Rate:
    """A quotient of two figures of a run; None where either is not measured. Over several runs it is the sum of `total`
    by the sum of `over`."""

    total: Callable[[RunLog], float | None]
    over: Callable[[RunLog], float | None]

    def __call__(self, run: RunLog) -> float | None:
        total = self.total(run)
        over = None if total is None else self.over(run)
        return total / over if total is not None and over else None


def union_ns(intervals: Iterable[Interval]) -> int:
    """Length of the union of intervals in ns; overlaps count once, empty or backward intervals not at all."""
    return sum(end - start for start, end in merged(intervals))


def covered_ns(run: RunLog, intervals: Iterable[Interval]) -> int:
    """Time in ns that these intervals of a run cover, overlaps once.

    An imported run's are laid end to end, so a gap between two was measured as well: time that two models beside each
    other took from one another. It counts.
    """
    found = list(intervals)
    if run.info.imported is None or not found:
        return union_ns(found)
    return max(end for _, end in found) - min(start for start, _ in found)


def settled_intervals(run: RunLog, names: Iterable[str] = STAGES, role: str | None = None) -> list[Interval]:
    """Device intervals of the stages called `names`, of one role or of all; unsettled stages are left out.

    An interval that covers several stages counts when all that it accounts for is wanted (see `is_separable`).
    """
    wanted = frozenset(names)
    return [
        (span.start_ns, span.end_ns)
        for span in run.stages(role)
        if span.is_settled and span.end_ns is not None and wanted.issuperset(run.accounts_for(span))
    ]


def is_separable(run: RunLog, names: Iterable[str]) -> bool:
    """Whether these stages' time can be told from the others': no interval accounts for some of each."""
    wanted = frozenset(names)
    owned = [frozenset(run.accounts_for(span)) for span in run.stages()]
    return all(not part & wanted or part <= wanted for part in owned)


def is_measured(span: Span) -> bool:
    """Whether the span's device times are known."""
    return span.is_settled and span.end_ns is not None


def span_ms(span: Span | None) -> float | None:
    """Settled duration of a span in ms; None without one."""
    if span is None or not span.is_settled or span.end_ns is None:
        return None
    return ms_from_ns(span.end_ns - span.start_ns)


def stage_ms(run: RunLog, name: str, role: str | None = None) -> float | None:
    """Duration in ms of the stage of `role` (the answering model's by default); None when it was not measured."""
    return _stage_ms(run, name, role or run.info.role)


@kept(*((name, role) for name in STAGES for role in (DRAFT, TARGET)))
def _stage_ms(run: RunLog, name: str, role: str) -> float | None:
    return span_ms(run.stage(name, role))


@kept()
def imported_ms(run: RunLog) -> dict[str, float]:
    """Settled durations in ms of the answering model's intervals as an imported file has them, by their names; nothing
    of a run that was measured here."""
    if run.info.imported is None:
        return {}
    found = {span.name: span_ms(span) for span in run.stages(run.info.role)}
    return {name: duration for name, duration in found.items() if duration is not None}


@kept()
def covered_ms(run: RunLog) -> float | None:
    """Time in ms that stages of any role cover, overlaps once; None where none was measured."""
    intervals = settled_intervals(run)
    return ms_from_ns(covered_ns(run, intervals)) if intervals else None


@kept(*((name,) for name in STAGES))
def stage_total_ms(run: RunLog, name: str) -> float | None:
    """Time in ms covered by that stage of any role, overlaps once; None when no role measured it."""
    intervals = settled_intervals(run, (name,))
    return ms_from_ns(covered_ns(run, intervals)) if intervals else None


def start_ms(run: RunLog, at_ns: int) -> float | None:
    """A moment on the run's own clock in ms since its zero; None while the zero is unknown."""
    return None if run.info.start_ns is None else ms_from_ns(at_ns - run.info.start_ns)


def wall_ms(run: RunLog) -> float | None:
    """The run's own pair of clock readings in ms, never a sum; None until both are known."""
    if run.info.start_ns is None or run.info.end_ns is None:
        return None
    return ms_from_ns(run.info.end_ns - run.info.start_ns)


@kept()
def has_open_stages(run: RunLog) -> bool:
    """Whether a stage began whose device times are not known (a run that is going on, or was cut off)."""
    return any(not is_measured(span) for span in run.stages())


@kept()
def tensor_count(run: RunLog) -> int:
    """How many tensors were recorded (`RunLog.has_tensors` reads it)."""
    return run.count("tensors")


@kept()
def unattributed_ms(run: RunLog) -> float | None:
    """Wall less the union of all stage intervals, the draft's included; None unless every begun stage is measured."""
    if run.info.start_ns is None or run.info.end_ns is None or has_open_stages(run):
        return None
    return ms_from_ns(run.info.end_ns - run.info.start_ns - union_ns(settled_intervals(run)))


def total_ms(run: RunLog, basis: str = END_TO_END, until_ns: int | None = None) -> float | None:
    """Time in ms from the run's zero to `until_ns` (its end by default) counted on one of `BASES`.

    None while the run's zero or end is unknown, for model-only when no model stage was measured, and when an imported
    run's intervals do not tell what the basis counts. An imported run without a wall of its own has the time that
    the stages of its file cover, and no end-to-end total when loading is not among them.
    """
    return _total_ms(run, basis) if until_ns is None else _total_until_ms(run, basis, until_ns)


@kept(*((basis,) for basis in BASES))
def _total_ms(run: RunLog, basis: str) -> float | None:
    return _total_until_ms(run, basis, None)


def _total_until_ms(run: RunLog, basis: str, until_ns: int | None) -> float | None:
    if run.info.imported is not None and run.info.end_ns is None:
        return _imported_total_ms(run, basis, until_ns)
    if not is_separable(run, MODEL_STAGES if basis == MODEL_ONLY else ("load",)) and basis != END_TO_END:
        return None
    start = run.info.start_ns
    end = run.info.end_ns if until_ns is None else until_ns
    if start is None or end is None:
        return None
    if basis == MODEL_ONLY:
        clipped = _clipped(settled_intervals(run, MODEL_STAGES), start, end)
        return ms_from_ns(union_ns(clipped)) if clipped else None
    whole = end - start
    if basis == WITHOUT_LOAD:
        whole -= union_ns(_clipped(settled_intervals(run, ("load",)), start, end))
    return ms_from_ns(whole)


def widest_basis(groups: Sequence[Sequence[RunLog]]) -> str:
    """The first of `BASES` on which every group has a run with a total; failing that, on which any has one."""
    for holds in (all, any):
        for basis in BASES:
            if holds(any(total_ms(run, basis) is not None for run in runs) for runs in groups):
                return basis
    return END_TO_END


def _imported_total_ms(run: RunLog, basis: str, until_ns: int | None) -> float | None:
    names = STAGES if basis == END_TO_END else STAGES[1:] if basis == WITHOUT_LOAD else MODEL_STAGES
    listed = [span for span in run.stages(run.info.role) if until_ns is None or (span.end_ns or 0) <= until_ns]
    covered = {name for span in listed for name in span.covers}
    first = {END_TO_END: {"load"}, WITHOUT_LOAD: {"preprocess"}}.get(basis, set())
    needed = first | (set(MODEL_STAGES) if until_ns is None else {"vision", "prefill"})
    if not (needed <= covered and is_separable(run, names)):
        return None
    intervals = settled_intervals(run, names)
    if until_ns is not None:
        intervals = [(low, high) for low, high in intervals if high <= until_ns]
    return ms_from_ns(covered_ns(run, intervals)) if intervals else None


def _clipped(intervals: Iterable[Interval], start: int, end: int) -> list[Interval]:
    return [(max(low, start), min(high, end)) for low, high in intervals if min(high, end) > max(low, start)]
