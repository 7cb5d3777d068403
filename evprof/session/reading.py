"""Reads a session file without trusting it: its facts, its runs, and the rows of one run or of all.

Checksums find what a damaged disk changed. Damaged rows of a run are left out and the run counts as failed, so that no
figure includes them. Damage anywhere else refuses the file.
"""

from __future__ import annotations

import json
import math
import re
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from evprof.core.errors import UserError
from evprof.core.plain import UnfitError, hints_of, reader_of
from evprof.core.protocols import RunStarted
from evprof.core.recording import RecordLog, Texts
from evprof.core.records import STREAMS
from evprof.core.run_info import FAILED, RUNNING, RunInfo
from evprof.core.sample import Sample
from evprof.core.vocabulary.settings import settings_from_json
from evprof.session import chunk
from evprof.session.migrations import format_of, migrate
from evprof.session.opening import MOST_BYTES, bytes_in, check_header, is_cut, logs, opened
from evprof.session.presence import is_written
from evprof.session.store import abandoned_sentence
from evprof.session.tables import (
    COLUMNS,
    COUNTS,
    FACT_PREFIX,
    FORMAT,
    ROW_STREAMS,
    DamageError,
    checked,
    select,
    whole_rows,
)
from evprof.session.validation import implausible, is_known_run, run_info_from

_T = TypeVar("_T")

_BASE_BYTES, _BYTES_PER_FILE_BYTE = 64 << 20, 200
"""What a file may unpack to: no session of ours comes near 200 times its size."""

_NUMBERS = re.compile(r"(?:-?\d{1,18}(?:,-?\d{1,18})*)?\Z")
_NUMBER_LISTS = (("tensors", "shape"), ("rounds", "drafted_ids"))

ATTEMPTS = 8

_MOST_LEVELS = 64
_MOST_SHARED = 20_000
_MOST_CHUNKS = 16
"""Unpacked chunks of several runs that are kept: their neighbours are mostly read next."""


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
    """The recording of a session file with all rows; see `load_session`."""
    return load_session(path).recording


def load_session(path: Path) -> StoredSession:
    """A session with all rows in memory; `opened.open_session` reads the rows of a run on first use.

    Raises UserError when it is missing, foreign, newer or damaged. Runs that were going on when their program ended
    come back as failed; those of a program that still records come back as running.
    """

    def read(connection: sqlite3.Connection) -> StoredSession:
        with ExitStack() as stack:
            reading = SessionReading(Path(path), connection, stack)
            facts = reading.facts()
            infos = reading.infos(facts.get("writer"))
            recording, damages = reading.rows()
            for damage in damages:
                spoiled = [info for info in infos if damage.first <= info.run_id <= damage.last]
                if not spoiled:
                    raise DamageError("rows of no run in it are not as they were written")
                for info in spoiled:
                    info.spoil(damage.sentence)
            for info in infos:
                recording.post(RunStarted(info.run_id, info))
            return session_of(Path(path), recording, facts)

    return attempted(Path(path), read)


def attempted(path: Path, read: Callable[[sqlite3.Connection], _T]) -> _T:
    """The result of `read` on one state of a session file, which another program may be writing. Raises UserError."""
    check_header(path)
    try:
        for _ in range(ATTEMPTS):
            before = fingerprint(path)
            try:
                with opened(path) as connection:
                    result = read(connection)
                if not logs(path) and is_cut(path):
                    raise DamageError("its end is missing")
            except (sqlite3.Error, UnicodeDecodeError, DamageError) as error:
                if fingerprint(path) == before and not is_passing(error):
                    raise
            else:
                if fingerprint(path) == before:
                    return result
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


def fingerprint(path: Path) -> tuple[int, int, int]:
    """Changes whenever the file is written or replaced."""
    status = path.stat()
    return status.st_mtime_ns, status.st_size, status.st_ino


def session_of(path: Path, recording: RecordLog, facts: Mapping[str, Any]) -> StoredSession:
    """A recording with the content of the table `session`."""
    environment, created_at, version = (facts.get(key) for key in ("environment", "created_at", "evprof_version"))
    return StoredSession(
        path,
        recording,
        environment if isinstance(environment, dict) else {},
        created_at if isinstance(created_at, str) else None,
        version if isinstance(version, str) else None,
        {key.removeprefix(FACT_PREFIX): value for key, value in facts.items() if key.startswith(FACT_PREFIX)},
    )


@dataclass(frozen=True)
class Damage:
    """Rows that are not as they were written: a sentence, and the smallest and largest run they may belong to."""

    sentence: str
    first: int
    last: int


class SessionReading:
    """Reads one open session within a budget of memory. An older one is migrated in a private copy.

    `stack` closes the copy; `is_copy` says whether there is one.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, stack: ExitStack) -> None:
        self.path = path
        size = path.stat().st_size + sum(map(bytes_in, logs(path)))
        self._left_bytes = self._most_bytes = min(MOST_BYTES, _BASE_BYTES + _BYTES_PER_FILE_BYTE * size)
        number = format_of(connection)
        if number < 1:  # its header was whole a moment ago: a writer is making it right now
            raise DamageError("it is not whole yet")
        self.is_copy = number != FORMAT
        if self.is_copy:
            # In memory as long as it is small, then in a file without a name.
            copy = sqlite3.connect("", isolation_level=None, check_same_thread=False)
            stack.callback(copy.close)
            connection.backup(copy)
            migrate(copy)
            connection = copy
        self.connection = connection
        self._shared: dict[tuple[str, bytes], Any] = {}
        self._chunks: OrderedDict[int, tuple[str, list[Any]]] = OrderedDict()
        self._check_tables()
        self._counts = self._read_counts()
        ranges = "SELECT chunk_id, coalesce(first_run, -1), coalesce(last_run, -1) FROM chunks ORDER BY chunk_id"
        try:
            rows = np.array(connection.execute(ranges).fetchall(), dtype=np.int64)
        except (ValueError, TypeError, OverflowError) as error:
            raise DamageError("the runs of its chunks are not what evprof writes") from error
        self._runs_of_chunks = rows.reshape(-1, 3)
        self._check_count("chunks", len(self._runs_of_chunks))

    def _check_tables(self) -> None:
        """Tables and nothing else under our names: a view could compute for ever."""
        kinds = {name: kind for kind, name in self.connection.execute("SELECT type, name FROM sqlite_master")}
        for table in COLUMNS:
            if kinds.get(table) != "table":
                raise DamageError(f"it has no table '{table}'")

    def _read_counts(self) -> dict[str, int]:
        row = self.connection.execute("SELECT value FROM session WHERE key = ?", (COUNTS,)).fetchone()
        counts = self.json(row[0]) if row and isinstance(row[0], str) else None
        if not isinstance(counts, dict) or any(type(counts.get(table)) is not int for table in COLUMNS):
            raise DamageError("the count of its rows is missing")
        return counts

    def _check_count(self, table: str, count: int) -> None:
        if count != self._counts[table]:
            raise DamageError(f"rows of its table '{table}' are missing or not the last that were written")

    def _whole(self, table: str) -> list[tuple[Any, ...]]:
        rows = list(whole_rows(self.connection, table))
        self._check_count(table, sum(table != "session" or row[0] != COUNTS for row in rows))
        return rows

    @property
    def row_count(self) -> int:
        """The number of rows of all streams."""
        rows = self.connection.execute("SELECT sum(row_count) FROM chunks").fetchone()[0] or 0
        return int(rows) + self._counts["tensors"]

    def facts(self) -> dict[str, Any]:
        """What the table `session` holds. Raises DamageError."""
        return {key: self.json(value) for key, value in self._whole("session")}

    def infos(self, writer: object) -> list[RunInfo]:
        """All that is known of every run but its rows; `writer` is the tag of who writes it. Raises DamageError."""
        hashes: dict[int, dict[str, str | None]] = {}
        for run_id, kind, _, content_hash in self._whole("samples"):
            hashes.setdefault(run_id, {})[kind] = content_hash
        is_being_written = is_written(self.path)
        infos = []
        for run_id, _, _, _, text in self._whole("runs"):
            info = self._info(text)
            if info is None or info.run_id != run_id:
                raise DamageError(f"the facts of run {run_id} are not what evprof writes")
            sample, known = info.sample, hashes.get(run_id, {})
            if known:
                events, video = sample.events_hash or known.get("events"), sample.video_hash or known.get("video")
                info.sample = replace(sample, events_hash=events, video_hash=video)
            if info.status == RUNNING and not is_being_written:
                info.status, info.error = FAILED, abandoned_sentence(writer)
            infos.append(info)
        return infos

    def _info(self, text: str) -> RunInfo | None:
        """A run's facts from JSON. Equal parts of many runs (models, settings) are parsed once and shared."""
        self.spend(len(text))
        try:
            parts = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
            return run_info_from(self.json(text))
        values: dict[str, Any] = dict(_LACKING)
        try:
            for name in _FIELDS & parts.keys():
                values[name] = self._part(name, bytes(parts[name]))
            values["settings"], values["given"] = values["settings"]
            info = RunInfo(**values)
        except msgspec.DecodeError:  # a number that no float holds
            return run_info_from(self.json(text))
        except (UnfitError, TypeError):
            return None
        return info if is_known_run(info) else None

    def _part(self, name: str, raw: bytes) -> Any:
        if raw[:1] not in b"{[":
            return _FIELD_READERS[name](msgspec.json.decode(raw))
        key = (name, raw)
        value = self._shared.get(key)
        if value is None:
            if len(self._shared) >= _MOST_SHARED:
                self._shared.clear()
            value = self._shared[key] = _FIELD_READERS[name](self.json(raw))
        # Runs change their own dictionaries and lists.
        return value.copy() if isinstance(value, (dict, list)) else value

    def figures(self, run_id: int) -> dict[str, Any] | None:
        """The figures stored with a run; None without any, and where they are damaged."""
        self.renew()
        row = self.connection.execute(f"{select('figures')} WHERE run_id = ?", (run_id,)).fetchone()
        try:
            values = None if row is None else checked("figures", row)
            figures = None if values is None else self.json(values[1])
        except DamageError:
            return None
        return figures if isinstance(figures, dict) else None

    def rows(self, run_id: int | None = None) -> tuple[RecordLog, list[Damage]]:
        """The rows of a run, or of all. Raises DamageError for content that evprof does not write."""
        self.renew()
        recording, damages = RecordLog(), list[Damage]()
        for chunk_id, first, last in self._chunks_of(run_id):
            found = self._unpacked(chunk_id, is_shared=run_id is not None and first != last)
            if isinstance(found, str):
                damages.append(Damage(damage_sentence(found), first, last))
                continue
            stream, columns = found
            mask = None if run_id is None or first == last else columns[0] == run_id
            if mask is None or mask.all():
                recording.streams[stream].extend_columns(columns)
            elif mask.any():
                recording.streams[stream].extend_columns([masked(column, mask) for column in columns])
        for stream in ROW_STREAMS:
            damages += self._read_rows(recording, stream, run_id)
        for stream, name in _NUMBER_LISTS:
            if not all(map(_NUMBERS.match, recording.streams[stream].texts(name).words)):
                raise DamageError(f"a {name} among its {stream} is no list of numbers")
        if problem := implausible(recording):
            raise DamageError(problem)
        return recording, damages

    def _chunks_of(self, run_id: int | None) -> list[tuple[int, int, int]]:
        table = self._runs_of_chunks
        if run_id is not None:
            table = table[(table[:, 1] <= run_id) & (table[:, 2] >= run_id)]
        return [(number, first, last) for number, first, last in table.tolist()]

    def _unpacked(self, chunk_id: int, *, is_shared: bool) -> tuple[str, list[Any]] | str:
        """Stream and columns of a chunk, not to be changed; of a damaged one its stream, "" where it is not known."""
        known = self._chunks.get(chunk_id)
        if known is not None:
            return known
        try:
            row = self.connection.execute(f"{select('chunks')} WHERE chunk_id = ?", (chunk_id,)).fetchone()
        except (sqlite3.Error, UnicodeDecodeError):
            row = None  # a page is damaged
        values = None if row is None else checked("chunks", row)
        if values is None:
            return str(row[1]) if row is not None else ""
        unpacked = self.unpack(values)
        if is_shared:
            self._chunks[chunk_id] = unpacked
            if len(self._chunks) > _MOST_CHUNKS:
                self._chunks.popitem(last=False)
        return unpacked

    def unpack(self, values: tuple[Any, ...]) -> tuple[str, list[Any]]:
        """Stream and columns of a row of `chunks`. Raises DamageError."""
        _, stream, row_count, _, _, content, _, _ = values
        if stream not in STREAMS or stream in ROW_STREAMS:
            raise DamageError(f"it has rows of the unknown kind '{stream[:40]}'")
        try:
            columns = chunk.unpack(stream, row_count, content)
        except chunk.ChunkError as error:
            raise DamageError(f"a block of its {stream} cannot be unpacked ({error})") from error
        self.spend(8 * row_count * len(columns) + len(content))
        return stream, columns

    def _read_rows(self, recording: RecordLog, stream: str, run_id: int | None) -> list[Damage]:
        where, values = ("", ()) if run_id is None else ("WHERE run_id = ?", (run_id,))
        batch, damages, count = list[tuple[Any, ...]](), list[Damage](), 0
        for row in self.connection.execute(f"{select(stream)} {where} ORDER BY rowid", values):
            count += 1
            found = checked(stream, row)
            if found is None:
                owner = row[1] if isinstance(row[1], int) else -1
                damages.append(Damage(damage_sentence(stream), owner, owner))
                continue
            self.spend(8 * len(found) + sum(len(value) for value in found if isinstance(value, str)))
            batch.append(found[1:])
        if run_id is None:
            self._check_count(stream, count)
        recording.extend(stream, batch)
        return damages

    def json(self, text: str | bytes) -> Any:
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
        """Resets the budget, for another question to the same file."""
        self._left_bytes = self._most_bytes

    def spend(self, count: int) -> None:
        """Counts bytes that are used. Raises DamageError past what a session of its size can hold."""
        self._left_bytes -= count
        if self._left_bytes < 0:
            raise DamageError("it would unpack to more than a session of its size can hold")


_LACKING = {"settings": settings_from_json(None), "sample": Sample.from_facts(None)}
_FIELDS = hints_of(RunInfo).keys() - {"given"}
_FIELD_READERS: dict[str, Callable[[Any], Any]] = {
    **{name: reader_of(hint) for name, hint in hints_of(RunInfo).items()},
    "settings": settings_from_json,
    "sample": Sample.from_facts,
}


def damage_sentence(stream: str) -> str:
    """The warning of a run of which rows are not as they were written."""
    what = stream if stream in STREAMS else "rows"
    return f"Some of its {what} are damaged in the file and left out."


def masked(column: Any, mask: Any) -> Any:
    """The rows of a column where `mask` holds."""
    if isinstance(column, Texts):
        return Texts(column.codes[mask], column.words)
    if isinstance(column, np.ndarray):
        return column[mask]
    return [value for value, is_kept in zip(column, mask.tolist(), strict=True) if is_kept]


def _finite(text: str) -> float | None:
    """A number of JSON; None, which is "not measured", for one that no float holds."""
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
