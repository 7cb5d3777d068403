"""A session file being written: created or continued, one commit at a time, closed as exactly one file.

It takes rows and run infos as they are; when to commit is the business of `evprof.run.session_writer`.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evprof.core.errors import UserError
from evprof.core.files.whole_file import put_new
from evprof.core.recording import Stream
from evprof.core.records import column_kinds
from evprof.core.run_info import FAILED, RUNNING, RunInfo
from evprof.session import chunk
from evprof.session.migrations import migrate
from evprof.session.opening import check_header
from evprof.session.presence import Hold, hold, network_kind
from evprof.session.tables import (
    COLUMNS,
    COUNTS,
    FACT_PREFIX,
    ROW_STREAMS,
    OtherWriterError,
    Tables,
    active_parts,
    counts_of,
    create,
)
from evprof.session.validation import fitting, run_info_from
from evprof.version import __version__

WRITER_GONE = "evprof stopped during this run."

_NO_LOCKS = (
    "The session lies on a file system that keeps no locks: see to it that no other evprof writes to it meanwhile."
)

CHUNK_ROWS = 16_384
CHUNK_BYTES = 8 << 20
"""A commit begins another chunk of a stream at these; see `chunk` for what a reader accepts."""


@dataclass
class Commit:
    """What one transaction takes in. `facts` are of the session, JSON under names of their own.

    `begun`: which of `infos` are of runs that the file must not hold yet. `figures`: by run, the figures of runs that
    have ended, all of whose rows are here or in the file.
    """

    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    infos: list[RunInfo] = field(default_factory=list)
    begun: frozenset[int] = frozenset()
    environment: dict[str, Any] | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    figures: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.ranges or self.infos or self.environment or self.facts or self.figures)


class LostError(UserError):
    """The file being written lies no longer where it was: moved, deleted, or replaced by another."""


class SessionFile:
    """One open session, and the only one that is open for writing. Used by one thread at a time."""

    def __init__(self, path: Path, lock: Hold | None = None) -> None:
        """Creates `path`, or continues it when it is a session; `lock` is `hold(path)` of somebody who lets go of it.

        Raises UserError for any other existing file, for a session that is being written, and when the place does not
        allow it.
        """
        self.path = path
        if path.exists():
            _check_continued(path)
        try:
            with ExitStack() as stack:
                self._lock = lock or hold(path)
                if lock is None:
                    stack.callback(self._lock.release)
                # Looked at again: only now nobody else makes it, or puts another in its place.
                if not path.exists():
                    put_new(path, _empty_session())
                _check_continued(path)
                self._identity = _identity(path)
                address = f"{path.absolute().as_uri()}?mode=rw"
                self._connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
                stack.callback(self._connection.close)
                self._begin()
                self._held = stack.pop_all()
        except (sqlite3.Error, OSError, ValueError, RecursionError) as error:
            raise UserError(f"{path} cannot be written: {error}; choose another place.") from error

    def _begin(self) -> None:
        self._connection.execute("PRAGMA trusted_schema = OFF")
        if parts := active_parts(self._connection):
            listed = ", ".join(parts[:3])
            raise UserError(
                f"{self.path} holds parts that evprof does not write ({listed}), so nothing is recorded into it; "
                "record into a new file."
            )
        migrate(self._connection)
        self._tables = Tables(self._connection, _counts(self._connection))
        with self._tables.transaction():
            self._tables.claim()
            self._end_abandoned_runs()
            self.next_run_id = self._next("run_id", "runs")
            self.next_group_id = self._next("group_id", "runs")
            self._next_chunk = self._next("chunk_id", "chunks")
            self._next_tensor = self._next("tensor_id", "tensors")
        # Only now: a session that is damaged stays as it is to the byte, and the kind of its log is part of the file.
        self.note = " ".join(filter(None, [self._choose_journal(), "" if self._lock.is_real else _NO_LOCKS]))
        self._connection.execute("PRAGMA synchronous = NORMAL")

    def _next(self, column: str, table: str) -> int:
        return int(self._connection.execute(f"SELECT max({column}) FROM {table}").fetchone()[0] or 0) + 1

    def _choose_journal(self) -> str:
        """Write-ahead log on a local disk, TRUNCATE elsewhere; says in a sentence when it is the latter."""
        kind = network_kind(self.path)
        if kind is None:
            if self._connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] == "wal":
                return ""
            kind = "one without shared memory"
        self._connection.execute("PRAGMA journal_mode = TRUNCATE")
        return (
            f"The session lies on a network file system ({kind}) and is written without a write-ahead log: saving is "
            "slower there; a local disk disturbs a measurement less."
        )

    def _end_abandoned_runs(self) -> None:
        rows = self._connection.execute("SELECT info FROM runs WHERE status = ?", (RUNNING,)).fetchall()
        for (text,) in rows:
            info = _info_from(text)
            info.status, info.error = FAILED, WRITER_GONE
            self._tables.put("runs", _run_row(info))

    def check_in_place(self) -> None:
        """Raises LostError unless what is being written lies where it was."""
        try:
            found = _identity(self.path)
        except OSError:
            found = None
        if found != self._identity:
            what = "moved, or deleted," if found is None else "replaced by another file"
            raise LostError(f"{self.path} was {what} while it was being recorded.")

    def commit(self, streams: Mapping[str, Stream], news: Commit) -> None:
        """Writes everything in `news` or, raising sqlite3.Error, LostError or UserError, nothing.

        UserError: another program wrote into the file. A run that has begun must be new to the file:
        sqlite3.IntegrityError where one of its number is there.
        """
        self.check_in_place()
        next_chunk, next_tensor = self._next_chunk, self._next_tensor
        try:
            with self._tables.transaction():
                self._put_news(streams, news)
        except BaseException as error:
            self._next_chunk, self._next_tensor = next_chunk, next_tensor
            if isinstance(error, OtherWriterError):
                raise UserError(f"{self.path} is being recorded by another program, too.") from None
            raise

    def _put_news(self, streams: Mapping[str, Stream], news: Commit) -> None:
        for info in news.infos:
            if info.run_id in news.begun:
                self._tables.insert("runs", [_run_row(info)])
            else:
                self._tables.put("runs", _run_row(info))
        for name, (start, stop) in news.ranges.items():
            self._put_rows(streams[name], start, stop)
        for run_id, figures in news.figures.items():
            self._tables.put("figures", (run_id, json.dumps(figures)))
        if news.environment:
            self._put("environment", news.environment)
        for key, value in news.facts.items():
            self._put(FACT_PREFIX + key, value)

    def copy_to(self, path: Path) -> None:
        """Everything committed so far as a new session at `path`, even when ours is not in its place any more.

        Raises sqlite3.Error, OSError.
        """
        put_new(path, _empty_session())
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as copy:
            self._connection.backup(copy)

    def close(self) -> None:
        """Puts everything into one file. Raises sqlite3.Error when that fails; the rows are safe then all the same."""
        with self._held:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._connection.execute("PRAGMA journal_mode = DELETE")

    def infos(self) -> list[RunInfo]:
        """What is known of every run but its rows, in order. Raises ValueError for what evprof does not write."""
        texts = self._connection.execute("SELECT info FROM runs ORDER BY run_id").fetchall()
        return [_info_from(text) for (text,) in texts]

    def fact(self, key: str) -> Any:
        query = "SELECT value FROM session WHERE key = ?"
        row = self._connection.execute(query, (FACT_PREFIX + key,)).fetchone()
        return json.loads(row[0]) if row else None

    def _put(self, key: str, value: object) -> None:
        self._tables.put("session", (key, json.dumps(value, default=str)))

    def _put_rows(self, stream: Stream, start: int, stop: int) -> None:
        if stream.name in ROW_STREAMS:
            rows = [[storable(value) for value in row] for row in stream.rows(start, stop)]
            self._tables.insert(stream.name, [(number, *row) for number, row in enumerate(rows, self._next_tensor)])
            self._next_tensor += len(rows)
            self._forget_figures({row[0] for row in rows})
            return
        for first, last in _pieces(stream, start, stop):
            columns = [stream.column(name, first, last) for name in stream.column_names]
            runs = stream.column("run_id", first, last)
            content, of_runs = chunk.pack(stream.name, columns), (int(runs.min()), int(runs.max()))
            row = (self._next_chunk, stream.name, last - first, None, None, content, *of_runs)
            self._tables.insert("chunks", [row])
            self._next_chunk += 1
            self._forget_figures(set(runs.tolist()))

    def _forget_figures(self, run_ids: Iterable[int]) -> None:
        for run_id in run_ids:
            self._tables.remove("figures", run_id)


@contextmanager
def changed_session(path: Path) -> Iterator[SessionFile]:
    """A session that nobody records, made if need be, open inside. Raises UserError when it cannot be written."""
    try:
        with closing(SessionFile(path)) as file:
            yield file
    except sqlite3.Error as error:
        raise UserError(f"{path} cannot be written: {error}; is there room on the disk?") from error


def _check_continued(path: Path) -> None:
    """Raises UserError unless `path` is a session under one name: a hard link has a lock and a log of its own."""
    check_header(path)
    if (links := path.stat().st_nlink) > 1:
        raise UserError(
            f"{path} is one of {links} names (hard links) of the same file, which another program could write at the "
            "same time; copy it, and record into the copy."
        )


def _counts(connection: sqlite3.Connection) -> dict[str, int]:
    row = connection.execute("SELECT value FROM session WHERE key = ?", (COUNTS,)).fetchone()
    counts = json.loads(row[0]) if row else None
    if counts != counts_of(connection):
        raise ValueError("rows of its tables are missing")
    return dict(counts)


def _empty_session() -> bytes:
    """The bytes of a session without a run, made in memory: it appears in its place whole or not at all."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        create(connection)
        tables = Tables(connection, dict.fromkeys(COLUMNS, 0))
        with tables.transaction():
            tables.put("session", ("created_at", json.dumps(datetime.now(UTC).isoformat(timespec="seconds"))))
            tables.put("session", ("evprof_version", json.dumps(__version__)))
        return bytes(connection.serialize())


def _info_from(text: str) -> RunInfo:
    info = run_info_from(json.loads(text))
    if info is None:
        raise ValueError("the facts of a run are not what evprof writes")
    return info


def _identity(path: Path) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _run_row(info: RunInfo) -> tuple[Any, ...]:
    values, left_out = fitting(info)
    if left_out:
        values["warnings"] = [
            *values.get("warnings", []),
            f"Not saved, because it was not reported as expected: {', '.join(left_out)}.",
        ]
    text = json.dumps(values, default=str, skipkeys=True)
    return (info.run_id, info.group_id, info.status, storable(values.get("text")), text)


def storable(value: Any) -> Any:
    """Text without lone surrogates, which SQLite refuses; everything else as it is."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    return value


def _pieces(stream: Stream, start: int, stop: int) -> Iterable[tuple[int, int]]:
    heavy = [name for name, kind in column_kinds(stream.name).items() if kind != "int"]
    while start < stop:
        last = min(start + CHUNK_ROWS, stop)
        weights = [
            sum(map(len, row)) for row in zip(*(stream.column(name, start, last) for name in heavy), strict=True)
        ]
        total = 0
        for count, weight in enumerate(weights):
            total += weight
            if total > CHUNK_BYTES and count:
                last = start + count
                break
        yield start, last
        start = last
