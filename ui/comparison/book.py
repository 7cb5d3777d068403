"""The state of the comparison window: sessions, their configurations, the columns and the baseline. No widgets."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from evprof.core.run_info import FINISHED
from evprof.core.run_log import RunLog
from evprof.metrics.configurations.baselines import pooled
from evprof.metrics.configurations.gathering import Configuration, configuration_key, configurations_of
from evprof.metrics.figures.stages import END_TO_END
from evprof.session.opened import open_session
from evprof.session.opening import is_session

OPEN_SESSION = ""
"""The key of the window's own session; other sessions have their path."""

MOST_FIRST = 4
"""Columns that a comparison begins with."""


class ColumnKey(NamedTuple):
    """The session of a column, its first run, and that run's mode and role."""

    session: str
    run_id: int
    mode: str
    role: str


def key_of(column: Configuration) -> ColumnKey:
    info = column.runs[0].info
    return ColumnKey(column.session, column.run_id, info.mode, info.role)


@dataclass
class OpenSession:
    """A session with its path ("" for the window's own), name and runs. Only runs that are over have columns."""

    path: str
    title: str
    runs: Sequence[RunLog]
    columns: dict[ColumnKey, Configuration] = field(default_factory=dict)
    _state: object = None

    def update(self) -> None:
        """Gathers the configurations again if runs have come or ended."""
        ended = [run for run in self.runs if run.info.is_over]
        state = tuple((run.run_id, run.version) for run in ended)
        if state != self._state:
            self._state = state
            self.columns = {key_of(column): column for column in pooled(configurations_of(ended, self.path))}

    def left_out(self, column: Configuration) -> int:
        """The number of finished runs of a configuration that are in no figure: warm-up, profiled and cold runs."""
        keys = {configuration_key(run.info) for run in column.runs}
        taken = {run.run_id for run in column.runs}
        return sum(
            run.run_id not in taken and run.info.status == FINISHED and configuration_key(run.info) in keys
            for run in self.runs
        )


class ComparisonBook:
    """Sessions in the order of opening, columns in the order of choice, the baseline, and what the table shows."""

    def __init__(self) -> None:
        self.sessions: dict[str, OpenSession] = {}
        self.chosen: list[ColumnKey] = []
        self.baseline: ColumnKey | None = None
        self.basis = END_TO_END
        self.differences_only = False

    def show_session(self, path: str, title: str, runs: Sequence[RunLog]) -> None:
        """Opens a session, or updates its runs."""
        session = self.sessions.setdefault(path, OpenSession(path, title, runs))
        session.title, session.runs = title, runs
        session.update()
        self._tidy()

    def close_session(self, path: str) -> None:
        self.sessions.pop(path, None)
        self._tidy()

    def column(self, key: ColumnKey) -> Configuration | None:
        session = self.sessions.get(key.session)
        return None if session is None else session.columns.get(key)

    @property
    def configurations(self) -> list[Configuration]:
        """The columns in order."""
        return [column for key in self.chosen if (column := self.column(key)) is not None]

    @property
    def baseline_index(self) -> int:
        return self.chosen.index(self.baseline) if self.baseline in self.chosen else 0

    def toggle(self, key: ColumnKey) -> None:
        """Adds a column after the others, or removes it."""
        if key in self.chosen:
            self.chosen.remove(key)
        else:
            self.chosen.append(key)
        self._tidy()

    def choose_first(self, shown: Sequence[RunLog]) -> None:
        """Chooses the configurations of `shown` runs of the open session, or its first ones if there are too few."""
        session = self.sessions.get(OPEN_SESSION)
        if session is None or self.chosen:
            return
        ids = {run.run_id for run in shown}
        keys = [key for key, column in session.columns.items() if any(run.run_id in ids for run in column.runs)]
        self.chosen = keys if len(keys) > 1 else list(session.columns)[:MOST_FIRST]
        self._tidy()

    def _tidy(self) -> None:
        """Drops columns that do not exist any more, and a baseline that is none of them."""
        self.chosen = [key for key in self.chosen if self.column(key) is not None]
        if self.baseline not in self.chosen:
            self.baseline = self.chosen[0] if self.chosen else None


def read_any(path: Path) -> OpenSession:
    """Reads a session, or imports a result file of another program into a session that is not kept.

    Raises UserError for anything else.
    """
    if is_session(path) or path.suffix.lower() != ".json":
        return _read(path, path)
    from evprof.run.legacy_import import import_files

    with tempfile.TemporaryDirectory(prefix="evprof-import-") as folder:
        session = Path(folder) / f"{path.stem}.evprof"
        import_files([path], session, is_passing=True)
        return _read(session, path)


def _read(session: Path, source: Path) -> OpenSession:
    return OpenSession(str(source), source.name, tuple(open_session(session).runs.values()))
