"""The data of a report: the rows of one or several sessions, failed ones apart, gathered into configurations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from evprof.core.errors import UserError
from evprof.core.run_info import FINISHED
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.modes import mode_of
from evprof.export.report.figures import figure_cell
from evprof.export.report.parts import Badge, Cell, CellOf, Table, table_of
from evprof.export.report.readings import ReportReading
from evprof.metrics.arithmetic.statistics import Summary, summarize
from evprof.metrics.comparison.comparability import Comparability, comparability
from evprof.metrics.comparison.differences import SEPARATOR, without_common_end
from evprof.metrics.configurations.baselines import SessionPools, pooled
from evprof.metrics.configurations.gathering import Configuration, configurations_of, last_attempts
from evprof.metrics.configurations.settings_text import run_label
from evprof.metrics.estimates.estimates import mean_of
from evprof.metrics.estimates.observations import Observation, observe
from evprof.metrics.figures.stages import END_TO_END, widest_basis
from evprof.session.facts import told_facts

_LONGEST_ERROR, _MOST_ERRORS = 300, 10

T = TypeVar("T")


@dataclass(frozen=True)
class Source:
    """One session as read: its runs, environment and facts (see `evprof.session.opened.OpenedSession`)."""

    path: Path
    runs: Sequence[RunLog]
    environment: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The session's path as it was given; "" for runs that lie in no file yet."""
        return "" if self.path == Path() else str(self.path)


@dataclass(frozen=True)
class ReportData(SessionPools):
    """Everything sections read.

    `columns` are the configurations, finished and comparable runs only; `failures` the rows that ended otherwise (of a
    repeated row only its last attempt counts); `warmups` the finished runs that enter no figure: warm-up, profiled, or
    cold.
    """

    sources: tuple[Source, ...]
    columns: tuple[Configuration, ...]
    failures: tuple[RunLog, ...]
    warmups: tuple[RunLog, ...]
    basis: str = END_TO_END
    command: str = ""
    _kept: dict[object, Any] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def names(self) -> list[str]:
        """The name of each of `columns`, in order; no two are equal."""
        return configuration_names(self.columns)

    def name(self, column: Configuration) -> str:
        names = self.once("names", lambda: dict(zip(map(id, self.columns), self.names, strict=True)))
        return names[id(column)]

    @cached_property
    def comparability(self) -> Comparability:
        """Whether the configurations can be compared with the first."""
        return comparability(self.columns)

    def values(self, column: Configuration, reading: ReportReading) -> list[float]:
        """A figure of every run of the configuration that has it, in order of the runs; read once."""
        return [entry.value for entry in self._observed(column, reading)]

    def _observed(self, column: Configuration, reading: ReportReading) -> list[Observation]:
        key = (id(column), reading.name, "values")
        return self.once(key, lambda: observe(column.runs, reading.read, column.session))

    def summary(self, column: Configuration, reading: ReportReading) -> Summary | None:
        """The statistics of `values`, with the mean over samples; None over nothing."""

        def summarized() -> Summary | None:
            observed = self._observed(column, reading)
            summary = summarize([entry.value for entry in observed])
            mean = mean_of(observed)
            return replace(summary, mean=mean) if summary and mean is not None else summary

        return self.once((id(column), reading.name, "summary"), summarized)

    def cell(self, column: Configuration, reading: ReportReading) -> Cell:
        return figure_cell(self.summary(column, reading), reading.unit, reading.badge(badge_of(column.runs)))

    def table(
        self,
        columns: Iterable[tuple[str, ReportReading | CellOf[Configuration]]],
        caption: str,
        shown: Iterable[Configuration] | None = None,
        text_columns: int = 1,
    ) -> Table:
        """A row for each configuration (of `shown`); of each column the head, and a figure or what makes a cell."""
        made: list[tuple[str, CellOf[Configuration]]] = [("configuration", self.name)]
        made += [
            (head, partial(self.cell, reading=what) if isinstance(what, ReportReading) else what)
            for head, what in columns
        ]
        return table_of(self.columns if shown is None else shown, made, caption, text_columns)

    @cached_property
    def runs(self) -> list[RunLog]:
        """All comparable runs."""
        return [run for column in self.columns for run in column.runs]

    def once(self, key: object, work: Callable[[], T]) -> T:
        """The result of `work`, computed once under this key."""
        if key not in self._kept:
            self._kept[key] = work()
        kept: T = self._kept[key]
        return kept

    @property
    def environment(self) -> dict[str, Any]:
        """Of the first session that has one."""
        return next((source.environment for source in self.sources if source.environment), {})

    def facts(self, key: str) -> list[Any]:
        """The facts of that name of all sessions that have one, in order: "suite", "ceilings", "imports"; of a merged
        one also those of its sources."""
        return [fact for source in self.sources for fact in told_facts(source.facts, key)]

    def noted_rows(self, key: str) -> Iterator[dict[str, Any]]:
        """The rows of all facts of that name that are lists of rows; a file may hold anything there."""
        for fact in self.facts(key):
            yield from (row for row in (fact if isinstance(fact, list) else ()) if isinstance(row, dict))

    @property
    def suites(self) -> list[dict[str, Any]]:
        """What the sessions' suites noted of themselves."""
        return [suite for suite in self.facts("suite") if isinstance(suite, dict)]


def gather(sources: Iterable[Source], basis: str | None = END_TO_END, command: str = "") -> ReportData:
    """The data of a report; `basis` None takes the widest that every configuration has a total on.

    Raises UserError, listing the errors, when not a single run finished.
    """
    listed = tuple(sources)
    kept = [(source, last_attempts(source.runs)) for source in listed]
    columns = tuple(
        column
        for source, runs in kept
        for column in pooled(configurations_of([run for run in runs if run.info.status == FINISHED], str(source.path)))
    )
    failures = tuple(run for _, runs in kept for run in runs if run.info.status != FINISHED and not run.info.warmup)
    if not columns:
        raise UserError(_nothing_finished(listed, failures))
    used = {id(run) for column in columns for run in column.runs}
    warmups = tuple(run for _, runs in kept for run in runs if run.info.status == FINISHED and id(run) not in used)
    shared = basis or widest_basis([column.runs for column in columns])
    return ReportData(listed, columns, failures, warmups, shared, command)


def badge_of(runs: Iterable[RunLog], otherwise: Badge = Badge.MEASURED) -> Badge:
    """The badge of a figure read off these runs: imported when any of them is."""
    return Badge.IMPORTED if any(run.info.imported is not None for run in runs) else otherwise


def is_imported(column: Configuration) -> bool:
    """Whether a configuration comes from a file of another program."""
    return column.runs[0].info.imported is not None


def _nothing_finished(sources: Sequence[Source], failures: Sequence[RunLog]) -> str:
    names = ", ".join(source.path.name for source in sources)
    errors = list(dict.fromkeys(run.info.error or run.info.status for run in failures))
    if not errors:
        return f"There is nothing to report: {names} holds no finished run that is neither warm-up nor profiled."
    shown = [error if len(error) <= _LONGEST_ERROR else f"{error[:_LONGEST_ERROR]}…" for error in errors[:_MOST_ERRORS]]
    more = f"; and {len(errors) - _MOST_ERRORS:,} other errors" if len(errors) > _MOST_ERRORS else ""
    return (
        f"There is nothing to report: none of {len(failures):,} runs in {names} finished. Errors: {'; '.join(shown)}"
        f"{more}."
    )


def configuration_names(columns: Sequence[Configuration]) -> list[str]:
    """One name per column, in order; no two are equal.

    The name of the suite's cell, or else mode, model and what is not at its default. What tells two of one name apart
    (model, role, session, run) is added to both; what all end in is left out.
    """
    names = [_name(column) for column in columns]
    for distinguish in (
        lambda column: column.model,
        lambda column: column.runs[0].info.role,
        lambda column: Path(column.session).stem,
        lambda column: f"run {column.run_id}",
    ):
        if len(set(names)) == len(names):
            break
        parts = [distinguish(column) for column in columns]
        known: dict[str, set[str]] = {}
        for name, part in zip(names, parts, strict=True):
            known.setdefault(name, set()).add(part)
        names = [
            f"{name}{SEPARATOR}{part}" if part and len(known[name]) > 1 else name
            for name, part in zip(names, parts, strict=True)
        ]
    seen: Counter[str] = Counter()
    numbered = []
    for name in _without_common_ends(names):
        # A session given twice has the same names twice.
        seen[name] += 1
        numbered.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return numbered


def _without_common_ends(names: list[str]) -> list[str]:
    """The names without what all end in, and without a mode of both models that all begin with."""
    parts = [name.split(SEPARATOR) for name in without_common_end(names)]
    firsts, is_shared = {part[0] for part in parts}, len(parts) > 1 and all(len(part) > 1 for part in parts)
    is_mode = is_shared and len(firsts) == 1 and mode_of(firsts.pop()).is_side_by_side
    return [SEPARATOR.join(part[is_mode:]) for part in parts]


def _name(column: Configuration) -> str:
    run = column.runs[0]
    if run.info.cell:
        return run.info.cell
    return SEPARATOR.join(part for part in (run.info.mode, column.model, run_label([run])) if part)
