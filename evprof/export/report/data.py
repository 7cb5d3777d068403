"""What a report is about: the rows of one or several sessions, failed ones apart, gathered into configurations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from evprof.core.errors import UserError
from evprof.core.run_info import FINISHED
from evprof.core.run_log import RunLog
from evprof.export.report.configurations import configuration_names
from evprof.export.report.figures import figure_cell
from evprof.export.report.parts import Badge, Cell
from evprof.export.report.readings import ReportReading
from evprof.metrics.arithmetic.statistics import Summary, summarize
from evprof.metrics.comparison.comparability import Comparability, comparability
from evprof.metrics.comparison.document import Configuration, configurations_of
from evprof.metrics.configurations.attempts import last_attempts
from evprof.metrics.configurations.baselines import RunPool, pools_of
from evprof.metrics.estimates.estimates import Observation, mean_of, observe
from evprof.metrics.figures.stages import END_TO_END, widest_basis
from evprof.session.facts import told_facts

_LONGEST_ERROR = 300

T = TypeVar("T")


@dataclass(frozen=True)
class Source:
    """One session as read: its runs, environment and facts (see `evprof.session.reading.StoredSession`)."""

    path: Path
    runs: Sequence[RunLog]
    environment: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The session's path as it was given; "" for runs that lie in no file yet."""
        return "" if self.path == Path() else str(self.path)


@dataclass(frozen=True)
class ReportData:
    """Everything sections read.

    `columns` are the configurations, finished and comparable runs only; `failures` the rows that ended otherwise (of a
    row tried again, only its last attempt counts); `warmups` the finished runs that no figure takes in: for warming up,
    profiled, or cold.
    """

    sources: tuple[Source, ...]
    columns: tuple[Configuration, ...]
    failures: tuple[RunLog, ...]
    warmups: tuple[RunLog, ...]
    basis: str = END_TO_END
    command: str = ""
    _read: dict[tuple[int, str], list[Observation]] = field(default_factory=dict, repr=False, compare=False)
    _summaries: dict[tuple[int, str], Summary | None] = field(default_factory=dict, repr=False, compare=False)
    _found: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def names(self) -> list[str]:
        """What each of `columns` is called, in order; no two are equal."""
        return configuration_names(self.columns)

    @cached_property
    def comparability(self) -> Comparability | None:
        """Whether the configurations can be compared with the first; None without any."""
        return comparability(self.columns) if self.columns else None

    def values(self, place: int, reading: ReportReading) -> list[float]:
        """A figure of every run of the configuration at `place` that has it, in order of the runs; read once."""
        return [entry.value for entry in self._observed(place, reading)]

    def _observed(self, place: int, reading: ReportReading) -> list[Observation]:
        known = self._read.get((place, reading.name))
        if known is None:
            column = self.columns[place]
            known = self._read[place, reading.name] = observe(column.runs, reading.read, column.session)
        return known

    def summary(self, place: int, reading: ReportReading) -> Summary | None:
        """What is to be said of `values`; None over nothing. Mean and interval are over samples (`estimates`)."""
        if (place, reading.name) not in self._summaries:
            values = self._observed(place, reading)
            found = summarize([entry.value for entry in values])
            estimate = mean_of(values) if found else None
            if found and estimate:
                found = replace(found, mean=estimate.value, ci95=estimate.interval)
            self._summaries[place, reading.name] = found
        return self._summaries[place, reading.name]

    def cell(self, place: int, reading: ReportReading) -> Cell:
        """The figure as it is told."""
        return figure_cell(self.summary(place, reading), reading.unit, reading.badge(self.badge(place)))

    def badge(self, place: int) -> Badge:
        """What a figure read off the runs of the configuration at `place` is: measured here, or imported."""
        return Badge.MEASURED if self.columns[place].runs[0].info.imported is None else Badge.IMPORTED

    @cached_property
    def runs(self) -> list[RunLog]:
        """All comparable runs."""
        return [run for column in self.columns for run in column.runs]

    def beside(self, column: Configuration) -> RunPool:
        """The comparable runs of a configuration's session: run numbers mean nothing in another."""
        return self._pools[column.session]

    @cached_property
    def _pools(self) -> dict[str, RunPool]:
        return pools_of(self.columns)

    def once(self, name: str, work: Callable[[], T]) -> T:
        """What `work` finds, which several sections ask for under this name: it is done once."""
        if name not in self._found:
            self._found[name] = work()
        found: T = self._found[name]
        return found

    @property
    def environment(self) -> dict[str, Any]:
        """Of the first session that has one."""
        return next((source.environment for source in self.sources if source.environment), {})

    def facts(self, key: str) -> list[Any]:
        """The facts of that name of all sessions that have one, in order: "suite", "ceilings", "imports", "views"; of a
        merged one also those that it keeps of its sources."""
        return [fact for source in self.sources for fact in told_facts(source.facts, key)]


def gather(sources: Iterable[Source], basis: str | None = END_TO_END, command: str = "") -> ReportData:
    """The data of a report; `basis` None takes the widest that every configuration has a total on.

    Raises UserError, listing the errors, when not a single run finished, unless files of statistics were imported.
    """
    listed = tuple(sources)
    kept = [(source, last_attempts(source.runs)) for source in listed]
    found = [
        column
        for source, runs in kept
        for column in configurations_of([run for run in runs if run.info.status == FINISHED], str(source.path))
    ]
    failures = tuple(run for _, runs in kept for run in runs if run.info.status != FINISHED and not run.info.warmup)
    if not found and not any(map(_holds_statistics, listed)):
        raise UserError(_nothing_finished(listed, failures))
    taken = {id(run) for column in found for run in column.runs}
    warmups = tuple(run for _, runs in kept for run in runs if run.info.status == FINISHED and id(run) not in taken)
    shared = basis or widest_basis([column.runs for column in found])
    return ReportData(listed, tuple(found), failures, warmups, shared, command)


def _holds_statistics(source: Source) -> bool:
    """Whether a file was imported into the session that holds statistics and no runs."""
    imports = source.facts.get("imports")
    return isinstance(imports, list) and any(
        isinstance(file, dict) and not file.get("runs") and (file.get("statistics") or file.get("series"))
        for file in imports
    )


def _nothing_finished(sources: Sequence[Source], failures: Sequence[RunLog]) -> str:
    names = ", ".join(source.path.name for source in sources)
    errors = dict.fromkeys(run.info.error or run.info.status for run in failures)
    if not errors:
        return f"There is nothing to report: {names} holds no finished run that is neither warm-up nor profiled."
    told = list(errors)[:10]
    listed = "; ".join(error if len(error) <= _LONGEST_ERROR else f"{error[:_LONGEST_ERROR]}…" for error in told)
    more = f"; and {len(errors) - 10:,} other errors" if len(errors) > 10 else ""
    return f"There is nothing to report: none of {len(failures):,} runs in {names} finished. Errors: {listed}{more}."
