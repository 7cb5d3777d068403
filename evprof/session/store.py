"""A session file being written: created or continued, one commit at a time, closed as exactly one file.

It takes rows and run infos as they are; when to commit is the business of `evprof.run.session_writer`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evprof import __version__
from evprof.core.errors import UserError
from evprof.core.recording import Stream
from evprof.core.records import column_kinds
from evprof.core.run_info import FAILED, RUNNING, RunInfo
from evprof.session import chunk
from evprof.session.filesystem import network_kind
from evprof.session.header import check_header
from evprof.session.migrations import migrate
from evprof.session.presence import is_alive, is_elsewhere, name_tag
from evprof.session.schema import FACT_PREFIX, ROW_STREAMS, create
from evprof.session.validation import fitting, run_info_from

WRITER_GONE = "The program ended during this run."

CHUNK_ROWS = 16_384
CHUNK_BYTES = 8 << 20
"""A commit begins another chunk of a stream at these; see `chunk` for what a reader accepts."""

_TIME_COLUMNS = {
    "spans": ("start_ns", "end_ns"),
    "tokens": ("t_ns",),
    "rounds": ("start_ns",),
    "kv": ("t_ns",),
    "memory": ("t_ns",),
    "power": ("t_ns",),
}


@dataclass(frozen=True)
class SampleFile:
    """A file a run read: `kind` is "events" or "video"; `content_hash` is None until somebody has read it through."""

    run_id: int
    kind: str
    path: str
    content_hash: str | None = None


@dataclass
class Commit:
    """What one transaction takes in. `facts` are of the session, JSON under names of their own."""

    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    infos: list[RunInfo] = field(default_factory=list)
    samples: list[SampleFile] = field(default_factory=list)
    environment: dict[str, Any] | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.ranges or self.infos or self.samples or self.environment or self.facts)


class SessionFile:
    """One open session. Used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Creates `path`, or continues it when it is a session.

        Raises UserError for any other existing file, for a session that is being written, and when the place does not
        allow it.
        """
        self.path = path
        is_new = not path.exists()
        if is_new and not path.parent.is_dir():
            raise UserError(f"{path} cannot be written: the folder {path.parent} does not exist; create it first.")
        if not is_new:
            check_header(path)
        try:
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5.0)
            try:
                self._begin(is_new)
            except BaseException:
                self._connection.close()
                if is_new:
                    path.unlink(missing_ok=True)
                raise
        except (sqlite3.Error, OSError, ValueError, RecursionError) as error:
            raise UserError(f"{path} cannot be written: {error}; choose another place.") from error

    def _begin(self, is_new: bool) -> None:
        # The schema first and in the main file, so that whatever a kill leaves behind is recognised by its header.
        if is_new:
            create(self._connection)
            self._put("created_at", datetime.now(UTC).isoformat(timespec="seconds"))
            self._put("evprof_version", __version__)
        else:
            writer = self._get("writer")
            if is_alive(writer):
                raise UserError(f"{self.path} is being recorded by another evprof; stop it or choose another name.")
            migrate(self._connection)
            self._end_abandoned_runs(writer)
        self.note = self._choose_journal()
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._put("writer", name_tag())
        row = self._connection.execute("SELECT max(run_id), max(group_id) FROM runs").fetchone()
        self.next_run_id: int = (row[0] or 0) + 1
        self.next_group_id: int = (row[1] or 0) + 1

    def _choose_journal(self) -> str | None:
        """Write-ahead log on a local disk, TRUNCATE elsewhere; says in a sentence when it is the latter."""
        kind = network_kind(self.path)
        if kind is None:
            if self._connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] == "wal":
                return None
            kind = "one without shared memory"
        self._connection.execute("PRAGMA journal_mode = TRUNCATE")
        return (
            f"The session lies on a network file system ({kind}) and is written without a write-ahead log: saving is "
            "slower there; a local disk disturbs a measurement less."
        )

    def _end_abandoned_runs(self, writer: object) -> None:
        rows = self._connection.execute("SELECT info FROM runs WHERE status = ?", (RUNNING,)).fetchall()
        for (text,) in rows:
            info = run_info_from(json.loads(text))
            if info is None:
                raise ValueError("the facts of a run are not what evprof writes")
            info.status, info.error = FAILED, abandoned_sentence(writer)
            self._put_info(info)

    def commit(self, streams: Mapping[str, Stream], news: Commit) -> None:
        """Writes everything in `news` or, raising sqlite3.Error, nothing."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            for name, (start, stop) in news.ranges.items():
                self._put_rows(streams[name], start, stop)
            for info in news.infos:
                self._put_info(info)
            for sample in news.samples:
                self._connection.execute(
                    "INSERT OR REPLACE INTO samples VALUES (?, ?, ?, ?)",
                    (sample.run_id, sample.kind, storable(sample.path), sample.content_hash),
                )
            if news.environment:
                self._put("environment", news.environment)
            for key, value in news.facts.items():
                self._put(FACT_PREFIX + key, value)
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Puts everything into one file. Raises sqlite3.Error when that fails; the rows are safe then all the same."""
        try:
            self._connection.execute("DELETE FROM session WHERE key = 'writer'")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._connection.execute("PRAGMA journal_mode = DELETE")
        finally:
            self._connection.close()

    def infos(self) -> list[RunInfo]:
        """What is known of every run but its rows, in order. Raises ValueError for what evprof does not write."""
        rows = self._connection.execute("SELECT info FROM runs ORDER BY run_id").fetchall()
        found = [run_info_from(json.loads(text)) for (text,) in rows]
        if None in found:
            raise ValueError("the facts of a run are not what evprof writes")
        return [info for info in found if info is not None]

    def fact(self, key: str) -> Any:
        """A fact of the session as it was last committed; None where there is none."""
        return self._get(FACT_PREFIX + key)

    def _put(self, key: str, value: object) -> None:
        self._connection.execute("INSERT OR REPLACE INTO session VALUES (?, ?)", (key, json.dumps(value, default=str)))

    def _get(self, key: str) -> object:
        row = self._connection.execute("SELECT value FROM session WHERE key = ?", (key,)).fetchone()
        return json.loads(row[0]) if row else None

    def _put_info(self, info: RunInfo) -> None:
        values, left_out = fitting(info)
        if left_out:
            values["warnings"] = [
                *values.get("warnings", []),
                f"Not saved, because it was not reported as expected: {', '.join(left_out)}.",
            ]
        self._connection.execute(
            "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?)",
            (
                info.run_id,
                info.group_id,
                info.status,
                storable(values.get("text")),
                json.dumps(values, default=str, skipkeys=True),
            ),
        )

    def _put_rows(self, stream: Stream, start: int, stop: int) -> None:
        if stream.name in ROW_STREAMS:
            names = ", ".join(stream.column_names)
            marks = ", ".join("?" for _ in stream.column_names)
            rows = ([storable(value) for value in row] for row in stream.rows(start, stop))
            self._connection.executemany(f"INSERT INTO {stream.name} ({names}) VALUES ({marks})", rows)
            return
        for first, last in _pieces(stream, start, stop):
            columns = [stream.column(name, first, last) for name in stream.column_names]
            times = [stream.column(name, first, last) for name in _TIME_COLUMNS.get(stream.name, ())]
            self._connection.execute(
                "INSERT INTO chunks (stream, row_count, first_ns, last_ns, content) VALUES (?, ?, ?, ?, ?)",
                (
                    stream.name,
                    last - first,
                    int(times[0].min()) if times else None,
                    max(int(time.max()) for time in times) if times else None,
                    chunk.pack(stream.name, columns),
                ),
            )


@contextmanager
def changed_session(path: Path) -> Iterator[SessionFile]:
    """A session that nobody records, made if need be, open inside. Raises UserError when it cannot be written."""
    try:
        with closing(SessionFile(path)) as file:
            yield file
    except sqlite3.Error as error:
        raise UserError(f"{path} cannot be written: {error}; is there room on the disk?") from error


def abandoned_sentence(writer: object) -> str:
    """Why a run that was never ended is not running: for a run whose writer is not of this machine, as far as known."""
    if is_elsewhere(writer) and isinstance(writer, dict):
        return f"{WRITER_GONE[:-1]}, or it still runs on {writer.get('host')}."
    return WRITER_GONE


def storable(value: Any) -> Any:
    """Text without lone surrogates, which SQLite refuses; everything else as it is."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    return value


def _pieces(stream: Stream, start: int, stop: int) -> Iterable[tuple[int, int]]:
    """The range cut so that no piece has too many rows or bytes."""
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
