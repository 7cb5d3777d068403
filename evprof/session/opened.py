"""Opens a session of any number of runs: what is known of each run at once, its rows and figures on first use."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from evprof.core.errors import UserError
from evprof.core.protocols import RunStarted
from evprof.core.recording import RecordLog
from evprof.core.run_book import RunBook
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunLog
from evprof.session.opening import check_header, logs, opened
from evprof.session.reading import (
    ATTEMPTS,
    SessionReading,
    StoredSession,
    attempted,
    fingerprint,
    is_passing,
    session_of,
)
from evprof.session.tables import DamageError
from evprof.session.validation import run_info_from

_T = TypeVar("_T")

MOST_FETCHED = 256
"""Runs whose rows stay in memory; those of others are read again when they are needed."""

_MOST_AHEAD = 4


@dataclass
class OpenedSession(StoredSession):
    """A session as opened: `runs` in order of their numbers, and `deleted` ones apart."""

    runs: Mapping[int, RunLog] = field(default_factory=dict)
    deleted: Mapping[int, RunLog] = field(default_factory=dict)
    row_count: int = 0

    def close(self) -> None:
        """Closes the file; the next use of a run's rows opens it again."""
        if isinstance(self.recording.source, SessionSource):
            self.recording.source.release()


def open_session(path: Path) -> OpenedSession:
    """Opens a session for reading. Raises UserError when it is missing, foreign, newer or damaged."""
    path = Path(path)

    def read(connection: sqlite3.Connection) -> OpenedSession:
        stack = ExitStack()
        with stack:
            reading = SessionReading(path, connection, stack)
            facts = reading.facts()
            infos = reading.infos(facts.get("writer"))
            recording = RecordLog()
            source = SessionSource(path, frozenset(info.run_id for info in infos), facts.get("created_at"))
            recording.source = source
            for info in infos:
                recording.post(RunStarted(info.run_id, info))
            row_count = reading.row_count
            if reading.is_copy:
                source.keep(reading, stack.pop_all())
        book = RunBook(recording)
        book.update()
        session = session_of(path, recording, facts)
        return OpenedSession(**vars(session), runs=book.runs, deleted=book.deleted, row_count=row_count)

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
        self._last: OrderedDict[int, tuple[RecordLog, list[str]]] = OrderedDict()
        """Rows that were read last: a window shows the runs that its reader's thread read ahead."""

    def __contains__(self, run_id: object) -> bool:
        return run_id in self._run_ids

    def keep(self, reading: SessionReading, held: ExitStack) -> None:
        """Reads from the private copy of an older session from now on."""
        self._held.push(held)
        self._reading = reading

    def rows(self, run_id: int) -> tuple[RecordLog, list[str]]:
        """The rows of a run, and sentences about damaged ones. Raises UserError where the file is gone."""

        def read(reading: SessionReading) -> tuple[RecordLog, list[str]]:
            try:
                recording, damages = reading.rows(run_id)
            except DamageError as damage:
                return RecordLog(), [f"Its rows are damaged in the file and left out: {damage}."]
            return recording, list(dict.fromkeys(damage.sentence for damage in damages))

        with self._lock:
            found = self._last.pop(run_id, None)
            if found is None:
                found = self._ask(read)
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
                self._reading, self._seen = None, None
                self._held.close()

    def _ask(self, question: Callable[[SessionReading], _T]) -> _T:
        with self._lock:
            if self._reading is not None and self._reading.is_copy:
                return question(self._reading)
            try:
                for _ in range(ATTEMPTS):
                    before = self._state()
                    try:
                        return question(self._opened(before))
                    except (sqlite3.Error, UnicodeDecodeError, DamageError, FileNotFoundError) as error:
                        self.release()  # a log may be gone by now: its writer has folded it in
                        if self._state() == before and not is_passing(error):
                            raise
                    finally:
                        if before[1]:
                            self.release()  # the writer must be able to fold its log in
                    time.sleep(0.1)
            except DamageError as damage:
                raise UserError(f"{self._path} is damaged: {damage}; use a copy of it.") from damage
            except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
                raise UserError(f"{self._path} cannot be read any more: {error}; put it back.") from error
        raise UserError(f"{self._path} changes faster than it can be read; stop the recording first.")

    def _state(self) -> tuple[object, bool]:
        return fingerprint(self._path), bool(logs(self._path))

    def _opened(self, state: tuple[object, bool]) -> SessionReading:
        if self._reading is None or self._seen != state:
            self.release()
            connection = self._held.enter_context(opened(self._path))
            self._reading, self._seen = SessionReading(self._path, connection, self._held), state
            if self._reading.facts().get("created_at") != self._created_at:
                raise DamageError("another session lies in its place now")
        return self._reading


# A session in a few words.

MOST_LOOKED_AT = 40
"""Runs, the newest first, whose models, modes and samples a summary lists."""

_LONGEST_INFO = 1 << 18


@dataclass(frozen=True)
class SessionSummary:
    """`models`, `modes` (their keys) and `samples` of the newest runs, each once, the newest first."""

    run_count: int
    models: tuple[str, ...]
    modes: tuple[str, ...]
    samples: tuple[str, ...]


def read_summary(path: Path) -> SessionSummary | None:
    """A summary of a session file; None of one that cannot be read, or that is being written."""
    try:
        check_header(path)
        if logs(path):
            return None
        with opened(path) as connection:
            count = int(connection.execute("SELECT count(*) FROM runs").fetchone()[0])
            infos = list(_newest(connection))
    except (sqlite3.Error, OSError, ValueError, TypeError, RecursionError, UserError):
        return None
    kept = [info for info in infos if not info.is_deleted]
    return SessionSummary(
        count - (len(infos) - len(kept)),
        tuple(dict.fromkeys(model.name for info in kept for model in info.models.values() if model.name)),
        tuple(dict.fromkeys(info.mode for info in kept)),
        tuple(dict.fromkeys(info.sample.name for info in kept if info.sample.name)),
    )


def _newest(connection: sqlite3.Connection) -> Iterator[RunInfo]:
    texts = connection.execute(
        "SELECT info FROM runs WHERE typeof(info) = 'text' AND length(info) <= ? ORDER BY run_id DESC LIMIT ?",
        (_LONGEST_INFO, MOST_LOOKED_AT),
    )
    for (text,) in texts:
        info = run_info_from(json.loads(text))
        if info is not None:
            yield info


def read_environment(path: Path) -> dict[str, Any] | None:
    """The environment of a session alone; None where it cannot be read or was never known."""
    try:
        with opened(Path(path)) as connection:
            row = connection.execute("SELECT value FROM session WHERE key = 'environment'").fetchone()
            environment = json.loads(row[0]) if row else None
    except (sqlite3.Error, OSError, ValueError, TypeError, RecursionError):
        return None
    return environment if isinstance(environment, dict) else None
