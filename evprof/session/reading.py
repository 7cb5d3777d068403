"""Reads a session file back into a Recording, without trusting it.

What a damaged disk changed is found by checksums. A damaged row of a run's measurements is left out and told with its
run, which counts as failed: no figure is made of what is not whole. Damage anywhere else refuses the file.
"""

from __future__ import annotations

import json
import math
import re
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from evprof.core.errors import UserError
from evprof.core.messages import RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import STREAMS
from evprof.core.run_info import FAILED, RUNNING, RunInfo
from evprof.session import chunk
from evprof.session.checked_rows import CheckedRows, DamagedRow
from evprof.session.checksums import DamageError, Tally, read_tally
from evprof.session.header import check_header, is_cut
from evprof.session.migrations import format_of, migrate
from evprof.session.opening import MOST_BYTES, bytes_in, logs, opened
from evprof.session.plausible import implausible
from evprof.session.presence import is_written
from evprof.session.schema import COLUMNS, FACT_PREFIX, FORMAT, ROW_STREAMS, TALLY
from evprof.session.store import abandoned_sentence
from evprof.session.validation import run_info_from

_BASE_BYTES, _BYTES_PER_FILE_BYTE = 64 << 20, 200
"""What a file may unpack to: no session of ours comes near 200 times its size."""

_NUMBERS = re.compile(r"(?:-?\d{1,18}(?:,-?\d{1,18})*)?\Z")
_NUMBER_LISTS = (("tensors", "shape"), ("rounds", "drafted_ids"))

ATTEMPTS = 8

_MOST_LEVELS = 64


@dataclass
class StoredSession:
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


def load_session(path: Path) -> StoredSession:
    """Like `read_session`, with the facts of the session itself."""
    path = Path(path)
    check_header(path)
    try:
        for _ in range(ATTEMPTS):
            before = fingerprint(path)
            try:
                with opened(path) as connection:
                    session = SessionReading(path, connection).session()
                if not logs(path) and is_cut(path):
                    raise DamageError("its end is missing")
            except (sqlite3.Error, UnicodeDecodeError, DamageError) as error:
                if fingerprint(path) == before and not is_passing(error):
                    raise
            else:
                if fingerprint(path) == before:
                    return session
            time.sleep(0.1)  # a writer is folding its log in right now
    except DamageError as damage:
        raise UserError(f"{path} is damaged: {damage}; use a copy of it, or record it again.") from damage
    except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}; use a copy of it, or record it again.") from error
    raise UserError(f"{path} changes faster than it can be read; stop the recording first.")


def is_passing(error: Exception) -> bool:
    """Whether it is about locks that another program holds for a moment, such as one that is being killed."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK)
    return code in (sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_BUSY)


def read_environment(path: Path) -> dict[str, Any] | None:
    """The environment of a session alone; None where it cannot be read or was never known."""
    try:
        with opened(Path(path)) as connection:
            row = connection.execute("SELECT value FROM session WHERE key = 'environment'").fetchone()
            found = json.loads(row[0]) if row else None
    except (sqlite3.Error, OSError, ValueError, TypeError, RecursionError, DamageError):
        return None
    return found if isinstance(found, dict) else None


def fingerprint(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size, status.st_ino


class SessionReading:
    """One reading of one open session, within a budget."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.connection = connection
        self._file_bytes = path.stat().st_size + sum(map(bytes_in, logs(path)))
        self._left_bytes = self._most_bytes = min(MOST_BYTES, _BASE_BYTES + _BYTES_PER_FILE_BYTE * self._file_bytes)
        self._recording = RecordLog()
        self._infos: dict[int, RunInfo] = {}

    def session(self) -> StoredSession:
        found = format_of(self.connection)
        if found == FORMAT:
            return self._read()
        if found < 1:  # its header was whole a moment ago: a writer is making it right now
            raise DamageError("it is not whole yet")
        with closing(self.migrated()) as copy:
            self.connection = copy
            # Checksums take room that the older file had no need of.
            self._file_bytes = 2 * self._file_bytes + (64 << 10)
            return self._read()

    def facts(self) -> tuple[dict[str, Any], Tally]:
        """What the table `session` holds, and how many rows the others do."""
        self._check_tables()
        tally = self._read_tally()
        self._rows = CheckedRows(self.connection, tally, self._file_bytes)
        return {key: self.json(value) for key, value in self._rows.whole("session")}, tally

    def _read(self) -> StoredSession:
        facts, _ = self.facts()
        self._read_runs(facts.get("writer"))
        self._read_row_streams()
        self._read_chunks()
        self.check_lists(self._recording)
        if told := implausible(self._recording):
            raise DamageError(told)
        return session_of(self.path, self._recording, facts)

    def migrated(self) -> sqlite3.Connection:
        """A copy in memory in the present format."""
        copy = sqlite3.connect(":memory:", isolation_level=None)
        try:
            self.connection.backup(copy)
            migrate(copy)
        except BaseException:
            copy.close()
            raise
        return copy

    def _check_tables(self) -> None:
        """Tables and nothing else under our names: a view could compute for ever."""
        found = {name: kind for kind, name in self.connection.execute("SELECT type, name FROM sqlite_master")}
        for table in COLUMNS:
            if found.get(table) != "table":
                raise DamageError(f"it has no table '{table}'")

    def _read_tally(self) -> Tally:
        row = self.connection.execute("SELECT value FROM session WHERE key = ?", (TALLY,)).fetchone()
        tally = read_tally(self.json(row[0])) if row and isinstance(row[0], str) else None
        if tally is None:
            raise DamageError("the count of its rows is missing")
        return tally

    def _read_runs(self, writer: object) -> None:
        samples: dict[int, dict[str, str | None]] = {}
        for run_id, kind, _, content_hash in self._rows.whole("samples"):
            samples.setdefault(run_id, {})[kind] = content_hash
        is_being_written = is_written(self.path)
        for run_id, _, _, _, text in self._rows.whole("runs"):
            self._infos[run_id] = info = self.info_from(run_id, text, samples.get(run_id, {}))
            if info.status == RUNNING and not is_being_written:
                info.status, info.error = FAILED, abandoned_sentence(writer)
            self._recording.post(RunStarted(run_id, info))

    def info_from(self, run_id: int, text: str, hashes: Mapping[str, str | None]) -> RunInfo:
        """A run's facts from their text, with the hashes of its sample's halves. Raises DamageError."""
        info = run_info_from(self.json(text))
        if info is None or info.run_id != run_id:
            raise DamageError(f"the facts of run {run_id} are not what evprof writes")
        events, video = info.sample.events_hash, info.sample.video_hash
        info.sample = replace(
            info.sample, events_hash=events or hashes.get("events"), video_hash=video or hashes.get("video")
        )
        return info

    def _read_row_streams(self) -> None:
        for stream in ROW_STREAMS:
            batch: list[tuple[Any, ...]] = []
            for _, *row in self._undamaged(stream, _run_of_row):
                self.spend(8 * len(row) + sum(len(value) for value in row if isinstance(value, str)))
                batch.append(tuple(row))
            self._recording.extend(stream, batch)

    def _read_chunks(self) -> None:
        for values in self._undamaged("chunks", _runs_of_chunk):
            stream, columns = self.unpacked(values)
            self._recording.streams[stream].extend_columns(columns)

    def unpacked(self, values: tuple[Any, ...]) -> tuple[str, list[Any]]:
        """Stream and columns of a row of `chunks`. Raises DamageError."""
        _, stream, row_count, _, _, content, _, _ = values
        if stream not in STREAMS or stream in ROW_STREAMS:
            raise DamageError(f"it has rows of the unknown kind '{stream[:40]}'")
        try:
            unpacked = chunk.unpack(stream, row_count, content)
        except chunk.ChunkError as error:
            raise DamageError(f"a block of its {stream} cannot be unpacked ({error})") from error
        self.spend(8 * row_count * len(unpacked) + len(content))
        return stream, unpacked

    def _undamaged(self, table: str, whose: _Whose) -> Iterator[tuple[Any, ...]]:
        """The rows that are whole; runs that a damaged one may have belonged to are told so.

        Of a row of which nothing is left it is known that its runs lie between those of the rows before and after.
        """
        waiting: list[DamagedRow] = []
        before = min(self._infos, default=0)
        for row in self._rows.each(table):
            if isinstance(row, DamagedRow):
                waiting.append(row)
                continue
            _, first, last = whose(row, is_damaged=False)
            if first is not None and last is not None:
                self._tell(waiting, table, whose, before, first)
                waiting, before = [], last
            yield row
        self._tell(waiting, table, whose, before, max(self._infos, default=0))

    def _tell(self, rows: list[DamagedRow], table: str, whose: _Whose, before: int, after: int) -> None:
        for row in rows:
            stream, first, last = (None, None, None) if row.values is None else whose(row.values, is_damaged=True)
            if first is None or last is None or not {first, last} <= self._infos.keys():
                first, last = min(before, after), max(before, after)
            spoilt = [info for run_id, info in self._infos.items() if first <= run_id <= last]
            if not spoilt:
                raise DamageError("rows of no run in it are not as they were written")
            for info in spoilt:
                spoil(info, damage_sentence(stream, table))

    def check_lists(self, recording: RecordLog) -> None:
        """Raises DamageError unless what should be lists of numbers is."""
        for stream, name in _NUMBER_LISTS:
            if not all(map(_NUMBERS.match, recording.streams[stream].texts(name).words)):
                raise DamageError(f"a {name} among its {stream} is no list of numbers")

    def json(self, text: str) -> Any:
        """The value of a text. Raises DamageError."""
        self.spend(len(text))
        try:
            values = json.loads(text, parse_constant=lambda _: None, parse_float=_finite)
        except (ValueError, RecursionError) as error:
            raise DamageError("the facts of a run or of the session are no JSON") from error
        if _is_deep(values):
            raise DamageError("the facts of a run or of the session are nested too deep")
        return values

    def renew(self) -> None:
        """Begins the budget anew: for another question to the same file."""
        self._left_bytes = self._most_bytes

    def spend(self, count: int) -> None:
        """Counts bytes that are taken. Raises DamageError past what a session of its size can hold."""
        self._left_bytes -= count
        if self._left_bytes < 0:
            raise DamageError("it would unpack to more than a session of its size can hold")


class _Whose(Protocol):
    """What a row says of itself: its stream, its smallest and its largest run; None for what it does not say."""

    def __call__(self, values: tuple[Any, ...], *, is_damaged: bool) -> tuple[str | None, int | None, int | None]: ...


def _runs_of_chunk(values: tuple[Any, ...], *, is_damaged: bool) -> tuple[str | None, int | None, int | None]:
    _, stream, row_count, _, _, content, first, last = values
    if is_damaged and isinstance(row_count, int) and isinstance(content, bytes):
        # Where the content is whole it knows better than the columns beside it, of which one is not.
        with suppress(chunk.ChunkError):
            return (stream, *chunk.run_range(row_count, content))
    return (stream, first, last)


def _run_of_row(values: tuple[Any, ...], *, is_damaged: bool) -> tuple[str | None, int | None, int | None]:
    return (None, None, None) if is_damaged else (None, values[1], values[1])


def damage_sentence(stream: str | None, table: str) -> str:
    """What is told of a run of which rows are not as they were written."""
    what = next((name for name in (stream, table) if name in STREAMS), "rows")
    return f"Some of its {what} are damaged in the file and left out."


def spoil(info: RunInfo, sentence: str) -> None:
    """A run that is not whole is no measurement: it counts as failed."""
    if sentence not in info.warnings:
        info.warnings = [*info.warnings, sentence]
    if info.status != FAILED:
        info.status, info.error = FAILED, sentence


def session_of(path: Path, recording: RecordLog, facts: Mapping[str, Any]) -> StoredSession:
    """A recording with what the table `session` tells of it."""
    environment, created_at, version = (facts.get(key) for key in ("environment", "created_at", "evprof_version"))
    return StoredSession(
        path,
        recording,
        environment if isinstance(environment, dict) else {},
        created_at if isinstance(created_at, str) else None,
        version if isinstance(version, str) else None,
        {key.removeprefix(FACT_PREFIX): value for key, value in facts.items() if key.startswith(FACT_PREFIX)},
    )


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
