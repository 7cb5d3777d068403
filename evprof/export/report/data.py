"""What a report is about: the rows of one or several sessions, failed ones apart, gathered into configurations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from evprof.core.errors import UserError
from evprof.core.run_info import FINISHED
from evprof.core.run_log import RunLog
from evprof.export.report.configurations import configuration_names
from evprof.metrics.attempts import last_attempts
from evprof.metrics.comparison import Column, columns, is_comparable
from evprof.metrics.stages import END_TO_END


@dataclass(frozen=True)
class Source:
    """One session as read: its runs, environment and facts (see `evprof.session.reading.Session`)."""

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
    row tried again, only its last attempt counts); `warmups` the finished warm-up runs, which no figure takes in.
    """

    sources: tuple[Source, ...]
    columns: tuple[Column, ...]
    failures: tuple[RunLog, ...]
    warmups: tuple[RunLog, ...]
    basis: str = END_TO_END
    command: str = ""

    @cached_property
    def names(self) -> list[str]:
        """What each of `columns` is called, in order; no two are equal."""
        return configuration_names(self.columns)

    @property
    def runs(self) -> list[RunLog]:
        """All comparable runs."""
        return [run for column in self.columns for run in column.runs]

    @property
    def environment(self) -> dict[str, Any]:
        """Of the first session that has one."""
        return next((source.environment for source in self.sources if source.environment), {})

    def facts(self, key: str) -> list[Any]:
        """The facts of that name of all sessions that have one, in order: "suite", "ceilings", "imports", "views"."""
        return [source.facts[key] for source in self.sources if key in source.facts]


def gather(sources: Iterable[Source], basis: str = END_TO_END, command: str = "") -> ReportData:
    """The data of a report. Raises UserError, listing the errors, when not a single run finished."""
    listed = tuple(sources)
    kept = [(source, last_attempts(source.runs)) for source in listed]
    found = [
        column
        for source, runs in kept
        for column in columns([run for run in runs if run.info.status == FINISHED], str(source.path))
    ]
    failures = tuple(run for _, runs in kept for run in runs if run.info.status != FINISHED and not run.info.warmup)
    if not found:
        raise UserError(_nothing_finished(listed, failures))
    warmups = tuple(run for _, runs in kept for run in runs if run.info.status == FINISHED and not is_comparable(run))
    return ReportData(listed, tuple(found), failures, warmups, basis, command)


def _nothing_finished(sources: Sequence[Source], failures: Sequence[RunLog]) -> str:
    names = ", ".join(source.path.name for source in sources)
    errors = dict.fromkeys(run.info.error or run.info.status for run in failures)
    if not errors:
        return f"There is nothing to report: {names} holds no finished run that is neither warm-up nor profiled."
    listed = "; ".join(list(errors)[:10])
    more = f"; and {len(errors) - 10} other errors" if len(errors) > 10 else ""
    return f"There is nothing to report: none of {len(failures)} runs in {names} finished. Errors: {listed}{more}."
