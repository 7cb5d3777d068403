"""Opens a session of any number of runs: what is known of each run at once, its rows and figures on first use."""

from __future__ import annotations

import sqlite3
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from evprof.core.protocols import RunStarted
from evprof.core.recording import RecordLog
from evprof.core.run_log import RunBook, RunLog
from evprof.session.opening import check_header, is_cut, logs, opened
from evprof.session.reading import SessionReading, attempted, fingerprint
from evprof.session.tables import FACT_PREFIX, DamageError

_T = TypeVar("_T")

MOST_FETCHED = 256
"""Runs whose rows stay in memory; those of others are read again when they are needed."""

_MOST_AHEAD = 4
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


@dataclass
class OpenedSession:
    """A session as opened: its runs by number, deleted ones apart, and what is known apart from them.

    `recording` has the runs without their rows; `facts` are as JSON gives them.
    """

    path: Path
    recording: RecordLog
    environment: dict[str, Any] = field(default_factory=dict)
    created_at: str | None = None
    evprof_version: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    runs: Mapping[int, RunLog] = field(default_factory=dict)
    deleted: Mapping[int, RunLog] = field(default_factory=dict)
    row_count: int = 0

    @property
    def every_run(self) -> dict[int, RunLog]:
        return dict(sorted({**self.runs, **self.deleted}.items()))

    def close(self) -> None:
        """Closes the file; the next use of a run's rows opens it again."""
        if isinstance(self.recording.source, SessionSource):
            self.recording.source.release()


def open_session(path: Path) -> OpenedSession:
    """Opens a session for reading. Raises UserError when it is missing, foreign, newer or damaged.

    Runs that were going on when their program ended come back as failed, those of a program that still records as
    running.
    """
    path = Path(path)

    def read() -> OpenedSession:
        stack = ExitStack()
        with stack, opened(path) as connection:
            reading = SessionReading(path, connection, stack)
            facts, infos, recording = reading.facts(), reading.infos(), RecordLog()
            source = SessionSource(path, frozenset(info.run_id for info in infos), facts.get("created_at"))
            recording.source = source
            for info in infos:
                recording.post(RunStarted(info.run_id, info))
            row_count = reading.row_count
            if reading.is_copy:
                source.keep(reading, stack.pop_all())
        if not logs(path) and is_cut(path):
            raise DamageError("its end is missing")
        book = RunBook(recording)
        book.update()
        environment, created_at, version = (facts.get(key) for key in ("environment", "created_at", "evprof_version"))
        return OpenedSession(
            path,
            recording,
            environment if isinstance(environment, dict) else {},
            created_at if isinstance(created_at, str) else None,
            version if isinstance(version, str) else None,
            {key.removeprefix(FACT_PREFIX): value for key, value in facts.items() if key.startswith(FACT_PREFIX)},
            book.runs,
            book.deleted,
            row_count,
        )

    check_header(path)
    return attempted(path, read)


class SessionSource:
    """The rows and figures of a session's runs. The file stays open while no program writes to it, and as long as the
    source lives; any thread may use it."""

    def __init__(self, path: Path, run_ids: frozenset[int], created_at: object) -> None:
        self._path = path
        self._run_ids = run_ids
        self._created_at = created_at
        self._lock = threading.RLock()
        self._held = ExitStack()
        weakref.finalize(self, self._held.close)
        self._reading: SessionReading | None = None
        self._seen: object = None
        self._fetched: OrderedDict[int, RunLog] = OrderedDict()
        self._last: OrderedDict[int, tuple[RecordLog, str]] = OrderedDict()
        """Rows that were read last: a window shows the runs that its reader's thread read ahead."""

    def __contains__(self, run_id: object) -> bool:
        return run_id in self._run_ids

    def keep(self, reading: SessionReading, held: ExitStack) -> None:
        """Reads from the private copy of an older session from now on."""
        self._held.push(held)
        self._reading = reading

    def rows(self, run_id: int) -> tuple[RecordLog, str]:
        """The rows of a run, and "" or why they are left out. Raises UserError where the file is gone."""

        def read(reading: SessionReading) -> tuple[RecordLog, str]:
            try:
                return reading.rows(run_id), ""
            except (DamageError, UnicodeDecodeError) as damage:
                problem: Exception = damage
            except sqlite3.Error as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGED:
                    raise
                problem = error
            return RecordLog(), f"Its rows are damaged in the file and left out: {problem}."

        with self._lock:
            found = self._last.pop(run_id, None) or self._ask(read)
            self._last[run_id] = found
            if len(self._last) > _MOST_AHEAD:
                self._last.popitem(last=False)
            return found

    def figures(self, run_id: int) -> Mapping[str, Any] | None:
        """The figures stored with a run. Raises UserError where the file is gone."""
        return self._ask(lambda reading: reading.figures(run_id))

    def note_fetched(self, run: RunLog) -> None:
        """Frees the rows of the run that was read longest ago, where too many are in memory."""
        self._fetched[id(run)] = run
        while len(self._fetched) > MOST_FETCHED:
            self._fetched.popitem(last=False)[1].forget_rows()

    def release(self) -> None:
        """Closes the file; the next use opens it again."""
        with self._lock:
            if self._reading is not None and not self._reading.is_copy:
                self._reading = None
                self._held.close()

    def _ask(self, question: Callable[[SessionReading], _T]) -> _T:
        def read() -> _T:
            is_answered = False
            try:
                answer = question(self._opened())
                is_answered = True
                return answer
            finally:
                # A writer must be able to fold its log in, and a log that was open may be gone.
                if not is_answered or logs(self._path):
                    self.release()

        with self._lock:
            if self._reading is not None and self._reading.is_copy:
                return question(self._reading)
            return attempted(self._path, read)

    def _opened(self) -> SessionReading:
        state = fingerprint(self._path)
        if self._reading is None or self._seen != state:
            self.release()
            connection = self._held.enter_context(opened(self._path))
            self._reading, self._seen = SessionReading(self._path, connection, self._held), state
            if self._reading.facts().get("created_at") != self._created_at:
                raise DamageError("another session lies in its place now")
        return self._reading
