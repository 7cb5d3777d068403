"""Sessions and their runs for scripts and notebooks: tables, figures and answers by name.

Names are those of the JSON documents (docs/json.md) and of the CSV files; times are ms since a run's zero, except in
`streams`, which hold the records: ns on the recorder's clock.
"""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

from evprof.core.errors import UserError
from evprof.core.protocols import Closing
from evprof.core.records import STREAMS, column_kinds
from evprof.core.run_info import FINISHED
from evprof.core.run_log import RunLog
from evprof.core.texts import guess_among
from evprof.core.units import count_text
from evprof.core.vocabulary.figures import FIGURES
from evprof.export.parquet import stream_values
from evprof.export.tables import COLUMNS, table_rows
from evprof.metrics.comparison.figures import READERS
from evprof.metrics.configurations.gathering import sample_key
from evprof.metrics.document import run_document, session_document
from evprof.metrics.facts import figure_facts
from evprof.metrics.figures.decoding import answer_text
from evprof.metrics.figures.stages import END_TO_END
from evprof.notebook.tables import Column, DataTable, Named, table_html
from evprof.session.facts import read_batches
from evprof.session.opened import OpenedSession, open_session

_TABLES = {name: columns[1:] for name, columns in COLUMNS.items()}
"""Columns of every table without the session's name."""

_OWN_TABLES = ("stages", "tokens", "rounds", "kv_cache", "memory", "power")


class _Measured:
    """The tables of one or several runs, by name and, for _OWN_TABLES, as attributes."""

    stages: DataTable
    tokens: DataTable
    rounds: DataTable
    kv_cache: DataTable
    memory: DataTable
    power: DataTable

    def __init__(self, name: str, logs: Iterable[RunLog]) -> None:
        self._name = name
        self._runs: list[RunLog] | None = list(logs)
        self._made: dict[str, Named[DataTable]] = {}

    @property
    def _logs(self) -> list[RunLog]:
        if self._runs is None:
            raise UserError(f"{self._name} is closed; open it again.")
        return self._runs

    @property
    def tables(self) -> Mapping[str, DataTable]:
        """Every table that `evprof export --format csv` writes, by name, less the session's own name."""
        return self._kept("table", _TABLES, self._table)

    @property
    def streams(self) -> Mapping[str, DataTable]:
        """Every stream as it was recorded, by name: the columns of its records."""
        return self._kept("stream", {name: tuple(column_kinds(name)) for name in STREAMS}, self._stream)

    def __getattr__(self, name: str) -> DataTable:
        if name in _OWN_TABLES:
            return self.tables[name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{guess_among(name, dir(self))}")

    def _kept(
        self,
        kind: str,
        columns: Mapping[str, tuple[str, ...]],
        read: Callable[[str], Mapping[str, Column]],
    ) -> Mapping[str, DataTable]:
        """The tables of a kind by name, made once. Raises UserError when closed."""
        _ = self._logs
        if kind not in self._made:
            made = {name: DataTable(name, own, partial(read, name)) for name, own in columns.items()}
            self._made[kind] = Named(kind, made)
        return self._made[kind]

    def _let_go(self) -> None:
        self._runs = None
        self._made.clear()

    def _table(self, name: str) -> Mapping[str, Column]:
        rows = [row for log in self._logs for row in table_rows(name, log)]
        return {column: [row.get(column) for row in rows] for column in _TABLES[name]}

    def _stream(self, name: str) -> Mapping[str, Column]:
        blocks = [block for log in self._logs for block in log.blocks(name)]
        return {column: stream_values(blocks, column, kind) for column, kind in column_kinds(name).items()}


_MOST_SHOWN = 8


def _runs_html(title: str, logs: Sequence[RunLog]) -> str:
    """Status, answer and every measured figure, with a column for each of the first runs."""
    shown = logs[:_MOST_SHOWN]
    heads = [f"run {log.run_id}: {', '.join((log.info.mode, *log.info.marks))}" for log in shown]
    status = [f"{log.info.status}{f': {log.info.error}' if log.info.error else ''}" for log in shown]
    columns = [figure_facts(log) for log in shown]
    rows = [["status", *status], ["answer", *map(answer_text, shown)]]
    rows += [
        [facts[0].name, *(fact.text for fact in facts)]
        for facts in zip(*columns, strict=True)
        if any(fact.value is not None for fact in facts)
    ]
    more = f", the first {len(shown)} of them" if len(logs) > len(shown) else ""
    return table_html(title + more, ["", *heads], rows)


class Run(_Measured):
    """One run of a session."""

    def __init__(self, session: Session, log: RunLog) -> None:
        super().__init__(str(session.path), [log])
        self._session = session

    @property
    def _log(self) -> RunLog:
        (log,) = self._logs
        return log

    @property
    def run_id(self) -> int:
        """Its number in the session."""
        return self._log.run_id

    @property
    def mode(self) -> str:
        return self._log.info.mode

    @property
    def role(self) -> str:
        """The model that answers: "draft" or "target"."""
        return self._log.info.role

    @property
    def status(self) -> str:
        """ "running", "finished", "cancelled" or "failed"."""
        return self._log.info.status

    @property
    def error(self) -> str | None:
        """Why it failed; None where it did not."""
        return self._log.info.error

    @property
    def text(self) -> str:
        """The answer so far."""
        return str(self.document["text"] or "")

    @cached_property
    def figures(self) -> Mapping[str, float | None]:
        """Every figure of the model that answers, by its name; None for what was not measured."""
        log = self._log
        return Named("figure", {key: READERS[key](log, log.info.role, END_TO_END) for key in FIGURES})

    @cached_property
    def document(self) -> dict[str, Any]:
        """Everything as JSON has it; speculation is weighed against the plain runs of the same session."""
        return run_document(self._log, self._session._beside(self._log))

    def __repr__(self) -> str:
        return f"<evprof run {self.run_id}: {self.mode}, {self.role}, {self.status}>"

    def _repr_html_(self) -> str:
        """The run for notebooks: its answer and figures."""
        return _runs_html(f"run {self.run_id}", [self._log])


class Session(_Measured, Closing):
    """A session that was opened: its runs as they stood then. The file is never written to; the rows of a run are read
    from it when they are first asked for.

    A context manager; closed, it lets go of everything it read.
    """

    def __init__(self, stored: OpenedSession, folder: Path | None = None) -> None:
        """`folder`: a temporary one that holds the file, and goes when the session is closed or forgotten."""
        super().__init__(str(stored.path), stored.runs.values())
        self.path = stored.path
        self._stored: OpenedSession | None = stored
        self._forget = None if folder is None else weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    @classmethod
    def read(cls, path: Path, folder: Path | None = None) -> Self:
        """The session of a file. Raises UserError when it is missing, foreign, newer or damaged."""
        return cls(open_session(path), folder)

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """The runs in order of their numbers."""
        return tuple(Run(self, log) for log in self._logs)

    def run(self, run_id: int) -> Run:
        """The run of a number. Raises UserError where there is none."""
        for run in self.runs:
            if run.run_id == run_id:
                return run
        known = ", ".join(str(run.run_id) for run in self.runs)
        raise UserError(f"{self.path} has no run {run_id}; it has {known or 'none'}.")

    @property
    def environment(self) -> Mapping[str, Any]:
        """The machine and the software, as the JSON documents have them."""
        return Named("part of the environment", dict(self._open.environment))

    @property
    def figures(self) -> DataTable:
        """A row for each figure of each run, with its unit."""
        return self.tables["figures"]

    @property
    def document(self) -> dict[str, Any]:
        """Everything as one JSON document: what `evprof show --json` prints."""
        batches = read_batches(self._open.facts)
        return session_document(self._logs, self._open.environment or None, batches=batches)

    def raise_for_status(self) -> None:
        """Raises UserError, which tells the first error, unless every run finished."""
        bad = [log.info for log in self._logs if log.info.status != FINISHED]
        if bad:
            raise UserError(f"Run {bad[0].run_id} {bad[0].status}{f': {bad[0].error}' if bad[0].error else '.'}")

    def save(self, path: str | Path) -> Path:
        """Copies the session's file to a place where nothing is yet; returns that. Raises UserError."""
        target = Path(path)
        if not self._open.path.exists():
            raise UserError(f"{self.path} is gone.")
        if target.exists():
            raise UserError(f"{target} exists already; choose another name.")
        try:
            shutil.copyfile(self.path, target)
        except OSError as error:
            raise UserError(f"'{target}' cannot be written ({error.strerror or error}); name another place.") from error
        return target

    def close(self) -> None:
        """Lets go of what was read, and of a temporary file. Safe to call twice."""
        for run in self.__dict__.pop("runs", ()):
            run._let_go()
        self._let_go()
        if self._stored is not None:
            self._stored.close()
        self._stored = None
        if self._forget is not None:
            self._forget()

    def __repr__(self) -> str:
        told = "closed" if self._runs is None else count_text(len(self._runs), "run")
        return f"<evprof session {self.path}: {told}>"

    def _repr_html_(self) -> str:
        """The session for notebooks: the answers of its runs and their figures."""
        return _runs_html(f"{self.path.name}: {count_text(len(self._logs), 'run')}", self._logs)

    @property
    def _open(self) -> OpenedSession:
        if self._stored is None:
            raise UserError(f"{self._name} is closed; open it again.")
        return self._stored

    def _beside(self, log: RunLog) -> list[RunLog]:
        return [other for other in self._logs if sample_key(other) == sample_key(log)]
