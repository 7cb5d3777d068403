"""Reads a session file back into a Recording, without ever writing to it or beside it, and without trusting it.

A closed session is read in place. One whose writer was killed (or still writes) has a log beside it that SQLite would
have to fold in; that is done on a private copy.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evprof.core.errors import UserError
from evprof.core.messages import RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import STREAMS, column_kinds
from evprof.core.run_info import FAILED, RUNNING
from evprof.session import chunk
from evprof.session.header import check_header
from evprof.session.migrations import format_of, migrate
from evprof.session.presence import is_alive
from evprof.session.schema import FACT_PREFIX, FORMAT, ROW_STREAMS, TABLES
from evprof.session.store import abandoned_sentence
from evprof.session.validation import run_info_from

_LONGEST_VALUE = chunk.MAX_BYTES + 4096
_BASE_BYTES, _BYTES_PER_FILE_BYTE, _MOST_BYTES = 64 << 20, 200, 4 << 30
"""What a file may unpack to: no session of ours comes near 200 times its size."""

_NUMBERS = re.compile(r"(?:-?\d{1,18}(?:,-?\d{1,18})*)?\Z")
_NUMBER_LISTS = {("tensors", "shape"), ("rounds", "drafted_ids")}

_ATTEMPTS = 8

_MOST_LEVELS = 64


@dataclass
class Session:
    """A session as read: its recording, and what is known of it apart from its runs (`facts`, as JSON gives them)."""

    path: Path
    recording: RecordLog
    environment: dict[str, Any] = field(default_factory=dict)
    created_at: str | None = None
    evprof_version: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)


def read_session(path: Path) -> RecordLog:
    """The Recording of a session file: every run started with its info as it ended, and all rows.

    Raises UserError when it is missing, foreign, newer or damaged. Runs that were going on when their program ended
    come back as failed; those of a program that still records come back as running.
    """
    return load_session(path).recording


def load_session(path: Path) -> Session:
    """Like `read_session`, with the facts of the session itself."""
    path = Path(path)
    check_header(path)
    try:
        for _ in range(_ATTEMPTS):
            before = _fingerprint(path)
            try:
                with _opened(path) as connection:
                    session = _Reading(path, connection).session()
            except (sqlite3.Error, _DamageError):
                if _fingerprint(path) == before:
                    raise
            else:
                if _fingerprint(path) == before:
                    return session
            time.sleep(0.1)  # a writer is folding its log in right now
    except _DamageError as damage:
        raise UserError(f"{path} is damaged: {damage}; use a copy of it, or record it again.") from damage
    except (sqlite3.Error, OSError) as error:
        raise UserError(f"{path} cannot be read: {error}; use a copy of it, or record it again.") from error
    raise UserError(f"{path} changes faster than it can be read; stop the recording first.")


def read_environment(path: Path) -> dict[str, Any] | None:
    """The environment of a session alone; None where it cannot be read or was never known."""
    try:
        with _opened(Path(path)) as connection:
            row = connection.execute("SELECT value FROM session WHERE key = 'environment'").fetchone()
            found = json.loads(row[0]) if row else None
    except (sqlite3.Error, OSError, ValueError, TypeError, RecursionError, _DamageError):
        return None
    return found if isinstance(found, dict) else None


class _DamageError(Exception):
    """What is wrong with the content, in words."""


def _fingerprint(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size, status.st_ino


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    logs = _logs(path)
    if sum(log.stat().st_size for log in (path, *logs)) > _MOST_BYTES:
        raise _DamageError(f"it takes more than {_MOST_BYTES >> 30} GiB")
    if not logs:
        # Nothing of SQLite's may be created beside the file, not even the lock of a reader.
        with closing(_connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1")) as connection:
            yield connection
        return
    with tempfile.TemporaryDirectory(prefix="evprof-") as folder:
        copy = Path(folder) / "session"
        # The file before its log: frames that arrive meanwhile only add to it.
        shutil.copyfile(path, copy)
        for log in logs:
            shutil.copyfile(log, _beside(copy, log.name[len(path.name) :]))
        with closing(_connect(copy.as_uri())) as connection:
            yield connection


def _logs(path: Path) -> list[Path]:
    """What SQLite left beside the file and has yet to fold in."""
    found = (_beside(path, "-wal"), _beside(path, "-journal"))
    return [log for log in found if log.is_file() and log.stat().st_size]


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _connect(address: str) -> sqlite3.Connection:
    connection = sqlite3.connect(address, uri=True, isolation_level=None)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute("PRAGMA mmap_size = 0")
    return connection


class _Reading:
    """One reading of one open session."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection
        file_bytes = sum(part.stat().st_size for part in (path, *_logs(path)))
        self._left_bytes = min(_MOST_BYTES, _BASE_BYTES + _BYTES_PER_FILE_BYTE * file_bytes)
        self._recording = RecordLog()

    def session(self) -> Session:
        found = format_of(self._connection)
        if found == FORMAT:
            return self._read()
        if found < 1:  # its header was whole a moment ago: a writer is making it right now
            raise _DamageError("it is not whole yet")
        with closing(self._migrated()) as copy:
            self._connection = copy
            return self._read()

    def _read(self) -> Session:
        self._check_tables()
        facts = {key: self._json(value) for key, value in self._query("SELECT key, value FROM session", str, str)}
        self._read_runs(facts.get("writer"))
        self._read_row_streams()
        self._read_chunks()
        environment, created_at = facts.get("environment"), facts.get("created_at")
        version = facts.get("evprof_version")
        return Session(
            self._path,
            self._recording,
            environment if isinstance(environment, dict) else {},
            created_at if isinstance(created_at, str) else None,
            version if isinstance(version, str) else None,
            {key.removeprefix(FACT_PREFIX): value for key, value in facts.items() if key.startswith(FACT_PREFIX)},
        )

    def _migrated(self) -> sqlite3.Connection:
        """A copy in memory in the present format."""
        copy = sqlite3.connect(":memory:", isolation_level=None)
        self._connection.backup(copy)
        migrate(copy)
        return copy

    def _check_tables(self) -> None:
        """Tables and nothing else under our names: a view could compute for ever."""
        found = {name: kind for kind, name in self._query("SELECT type, name FROM sqlite_master", str, str)}
        for table in TABLES:
            if found.get(table) != "table":
                raise _DamageError(f"it has no table '{table}'")

    def _read_runs(self, writer: object) -> None:
        samples: dict[int, dict[str, str | None]] = {}
        for run_id, kind, content_hash in self._query(
            "SELECT run_id, kind, content_hash FROM samples", int, str, (str, type(None))
        ):
            samples.setdefault(run_id, {})[kind] = content_hash
        is_being_written = is_alive(writer)
        for run_id, text in self._query("SELECT run_id, info FROM runs ORDER BY run_id", int, str):
            info = run_info_from(self._json(text))
            if info is None or info.run_id != run_id:
                raise _DamageError(f"the facts of run {run_id} are not what evprof writes")
            if hashes := samples.get(run_id):
                events, video = info.sample.events_hash, info.sample.video_hash
                info.sample = replace(
                    info.sample, events_hash=events or hashes.get("events"), video_hash=video or hashes.get("video")
                )
            if info.status == RUNNING and not is_being_written:
                info.status, info.error = FAILED, abandoned_sentence(writer)
            self._recording.post(RunStarted(run_id, info))

    def _read_row_streams(self) -> None:
        for stream in ROW_STREAMS:
            kinds = column_kinds(stream)
            expected = [int if kind == "int" else str for kind in kinds.values()]
            batch: list[tuple[Any, ...]] = []
            for row in self._query(f"SELECT {', '.join(kinds)} FROM {stream} ORDER BY rowid", *expected):
                self._spend(8 * len(row) + sum(len(value) for value in row if isinstance(value, str)))
                batch.append(row)
            self._extend(stream, batch)

    def _read_chunks(self) -> None:
        rows = self._query("SELECT stream, row_count, content FROM chunks ORDER BY chunk_id", str, int, bytes)
        for stream, row_count, content in rows:
            if stream not in STREAMS or stream in ROW_STREAMS:
                raise _DamageError(f"it has rows of the unknown kind '{stream[:40]}'")
            try:
                unpacked = chunk.unpack(stream, row_count, content)
            except chunk.ChunkError as error:
                raise _DamageError(f"a block of its {stream} cannot be unpacked ({error})") from error
            self._spend(8 * row_count * len(unpacked[0]) + len(content))
            self._extend(stream, unpacked)

    def _extend(self, stream: str, rows: list[tuple[Any, ...]]) -> None:
        for name in column_kinds(stream):
            if (stream, name) not in _NUMBER_LISTS:
                continue
            place = list(column_kinds(stream)).index(name)
            if not all(_NUMBERS.match(row[place]) for row in rows):
                raise _DamageError(f"a {name} among its {stream} is no list of numbers")
        self._recording.extend(stream, rows)

    def _query(self, statement: str, *kinds: Any) -> Iterator[tuple[Any, ...]]:
        """The rows of a statement, each value of its kind; SQLite itself promises no types."""
        try:
            for row in self._connection.execute(statement):
                if not all(isinstance(value, kind) for value, kind in zip(row, kinds, strict=True)):
                    raise _DamageError("a value is not of the kind evprof writes")
                yield row
        except UnicodeDecodeError as error:
            raise _DamageError("a text in it is not UTF-8") from error

    def _json(self, text: str) -> Any:
        self._spend(len(text))
        try:
            values = json.loads(text, parse_constant=lambda _: None, parse_float=_finite)
        except (ValueError, RecursionError) as error:
            raise _DamageError("the facts of a run or of the session are no JSON") from error
        if _is_deep(values):
            raise _DamageError("the facts of a run or of the session are nested too deep")
        return values

    def _spend(self, count: int) -> None:
        self._left_bytes -= count
        if self._left_bytes < 0:
            raise _DamageError("it would unpack to more than a session of its size can hold")


def _finite(text: str) -> float | None:
    """A number of JSON; None, which is "not measured", for one past all bounds. No reader of ours expects infinity."""
    value = float(text)
    return value if math.isfinite(value) else None


def _is_deep(values: object) -> bool:
    """Whether tables and lists lie in one another deeper than anything evprof writes."""
    level = [values]
    for _ in range(_MOST_LEVELS):
        tables = [entry for entry in level if isinstance(entry, (dict, list))]
        if not tables:
            return False
        level = [part for table in tables for part in (table.values() if isinstance(table, dict) else table)]
    return True
