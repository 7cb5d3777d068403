"""Opens a session of any number of runs: by its summaries where it has them, as a whole where they are missing.

What was opened looks the same to who asked, whichever it was.
"""

from __future__ import annotations

import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from evprof.core.errors import UserError
from evprof.core.recording import RecordLog, StoredPart
from evprof.core.rows.listed_runs import ListedRuns
from evprof.core.rows.row_block import blocks_by_run
from evprof.core.run_book import RunBook
from evprof.core.run_info import FAILED, RUNNING, RunInfo
from evprof.core.run_log import RunLog
from evprof.session.checksums import DamageError, Tally
from evprof.session.header import check_header
from evprof.session.migrations import format_of
from evprof.session.opening import logs, opened
from evprof.session.presence import is_written
from evprof.session.reading import ATTEMPTS, fingerprint, is_passing, load_session, session_of, spoil
from evprof.session.schema import COLUMNS, SUMMARIZED
from evprof.session.store import abandoned_sentence
from evprof.session.summaries.columns import StoredColumns, read_columns, read_words
from evprof.session.summaries.one_run import Lies, RunReading
from evprof.session.summaries.runs import SessionRuns
from evprof.session.summary_writing import INFO_COLUMNS

_T = TypeVar("_T")

MOST_LATE = 500
"""Runs without a summary that are read by themselves; where more have none, the session is read as a whole."""

_BEFORE = 8
"""Runs begin one after the other, and rows of a run come before those of the eighth after it begin."""


@dataclass
class OpenedSession:
    """A session as opened: `runs` in order of their numbers, `deleted` ones apart, and what is known of it besides.

    `stored` are those of the runs that have summaries; None where the session was read as a whole.
    """

    path: Path
    runs: Mapping[int, RunLog]
    deleted: Mapping[int, RunLog] = field(default_factory=dict)
    stored: SessionRuns | None = None
    recording: RecordLog = field(default_factory=RecordLog)
    environment: dict[str, Any] = field(default_factory=dict)
    created_at: str | None = None
    evprof_version: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    row_count: int = 0


def open_session(path: Path) -> OpenedSession:
    """Opens a session for reading. Raises UserError when it is missing, foreign, newer or damaged."""
    path = Path(path)
    check_header(path)
    for _ in range(ATTEMPTS):
        before = fingerprint(path)
        try:
            with opened(path) as connection:
                found = _by_summaries(path, connection)
        except (sqlite3.Error, UnicodeDecodeError, DamageError, OSError) as error:
            if fingerprint(path) == before and not is_passing(error):
                break  # what is wrong is told by who reads it all
        else:
            if fingerprint(path) == before:
                return found or _as_whole(path)
        time.sleep(0.1)
    return _as_whole(path)


def _as_whole(path: Path) -> OpenedSession:
    session = load_session(path)
    book = RunBook(session.recording)
    book.update()
    return OpenedSession(
        path,
        {run_id: book.runs[run_id] for run_id in sorted(book.runs)},
        {run_id: book.deleted[run_id] for run_id in sorted(book.deleted)},
        None,
        session.recording,
        session.environment,
        session.created_at,
        session.evprof_version,
        session.facts,
        session.recording.row_count,
    )


def _by_summaries(path: Path, connection: sqlite3.Connection) -> OpenedSession | None:
    """The session by its summaries; None where too many runs have none."""
    if format_of(connection) < SUMMARIZED:
        return None
    reading = RunReading(path, connection)
    facts, tally = reading.facts()
    if tally["runs"][0] - tally["summaries"][0] > MOST_LATE:
        return None
    store = SessionStore(path, connection, tally, facts.get("created_at"))
    for name, kind in INFO_COLUMNS.items():
        if len(store.columns) and (name not in store.columns or store.columns.kind(name) != kind):
            raise DamageError(f"its summaries do not tell the {name} of runs")
    told = session_of(path, RecordLog(), facts)
    stored = SessionRuns(store)
    is_fewer = tally["runs"][0] > tally["summaries"][0]
    late = _late_runs(reading, store.columns, facts.get("writer")) if is_fewer else {}
    deleted = {run_id for run_id, run in late.items() if run.info.is_deleted}
    if len(store.columns):
        deleted |= set(store.columns.run_ids[store.columns.column("is_deleted") > 0].tolist())
    groups = store.columns.column("group_id").tolist() if len(store.columns) else []
    every = ListedRuns(stored, late) if late else stored
    told.recording.stored = StoredPart(
        every,
        frozenset(deleted),
        max(every, default=0),
        max([*groups, *(run.info.group_id for run in late.values())], default=0),
    )
    return OpenedSession(
        path,
        ListedRuns(stored, late, deleted),
        {run_id: late[run_id] if run_id in late else stored[run_id] for run_id in sorted(deleted)},
        stored,
        told.recording,
        told.environment,
        told.created_at,
        told.evprof_version,
        told.facts,
        tally["tensors"][0] + (connection.execute("SELECT sum(row_count) FROM chunks").fetchone()[0] or 0),
    )


def _late_runs(reading: RunReading, columns: StoredColumns, writer: object) -> dict[int, RunLog]:
    """Runs that go on, or whose program ended before it could summarize them."""
    asked = "SELECT run_id FROM runs WHERE run_id NOT IN (SELECT run_id FROM summaries) ORDER BY run_id"
    infos = {run_id: reading.info_of(run_id) for (run_id,) in reading.connection.execute(asked).fetchall()}
    is_being_written = is_written(reading.path)
    for info in infos.values():
        if info.status == RUNNING and not is_being_written:
            info.status, info.error = FAILED, abandoned_sentence(writer)
    if not infos:
        return {}
    recording, problems = reading.rows_of(list(infos), *_since(reading, columns, min(infos)))
    runs = {run_id: RunLog(info) for run_id, info in infos.items()}
    for stream in recording.streams.values():
        for run_id, block in blocks_by_run(stream, 0, len(stream)):
            runs[run_id].take(*block)
    for sentence in problems:
        for info in infos.values():
            spoil(info, sentence)
    return runs


def _since(reading: RunReading, columns: StoredColumns, run_id: int) -> tuple[Lies, Lies]:
    """Where rows of a run, and of those after it, may lie."""
    found: list[Lies] = []
    for first, table in (("first_chunk", "chunks"), ("first_tensor", "tensors")):
        number = next(iter(COLUMNS[table]))
        last = reading.connection.execute(f"SELECT max({number}) FROM {table}").fetchone()[0]
        before = 1
        if len(columns):
            is_near = (columns.run_ids < run_id) & (columns.run_ids >= run_id - _BEFORE)
            numbers = columns.column(first)[is_near]
            before = max(int(numbers[numbers > 0].min(initial=last or 1)), 1) if (numbers > 0).any() else 1
        found.append((before, last))
    return found[0], found[1]


class SessionStore:
    """The file behind stored runs. It stays open while nobody writes to it, and for as long as the store is there; any
    thread may ask."""

    def __init__(self, path: Path, connection: sqlite3.Connection, tally: Tally, created_at: object) -> None:
        self._path = path
        self._created_at = created_at
        self._lock = threading.RLock()
        self._held = ExitStack()
        weakref.finalize(self, self._held.close)
        self._reading: RunReading | None = None
        self._seen: object = None
        self.columns = read_columns(connection, tally, lambda numbers: dict(read_words(connection, numbers)))
        self.columns.words = self.words

    def words(self, numbers: list[int]) -> dict[int, str]:
        """Words by their numbers. Raises UserError."""
        return self._ask(lambda reading: dict(read_words(reading.connection, numbers)))

    def whole_info(self, run_id: int) -> RunInfo:
        """All that is known of a run but its rows. Raises UserError."""
        return self._ask(lambda reading: reading.info_of(run_id))

    def rows(self, run_id: int, lies: Sequence[int | None]) -> tuple[RecordLog, list[str]]:
        """The rows of a run. Raises UserError where the file is gone."""
        if lies[0] is None and lies[2] is None:
            return RecordLog(), []
        return self._ask(lambda reading: reading.rows_of([run_id], (lies[0], lies[1]), (lies[2], lies[3])))

    def release(self) -> None:
        """Lets go of the file; the next question opens it again."""
        with self._lock:
            self._reading, self._seen = None, None
            self._held.close()

    def _ask(self, question: Callable[[RunReading], _T]) -> _T:
        with self._lock:
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
                            self.release()  # who writes it must be able to fold its log in
                    time.sleep(0.1)
            except DamageError as damage:
                raise UserError(f"{self._path} is damaged: {damage}; use a copy of it.") from damage
            except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
                raise UserError(f"{self._path} cannot be read any more: {error}; put it back.") from error
        raise UserError(f"{self._path} changes faster than it can be read; stop the recording first.")

    def _state(self) -> tuple[object, bool]:
        return fingerprint(self._path), bool(logs(self._path))

    def _opened(self, state: tuple[object, bool]) -> RunReading:
        if self._reading is None or self._seen != state:
            self.release()
            connection = self._held.enter_context(opened(self._path))
            self._reading, self._seen = RunReading(self._path, connection), state
            facts, _ = self._reading.facts()
            if facts.get("created_at") != self._created_at:
                raise DamageError("another session lies in its place now")
        return self._reading
