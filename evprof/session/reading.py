"""Reads a session file without trusting it: its facts, what is known of its runs, and the rows of one run.

Checksums find what a damaged disk changed. A run with damaged rows counts as failed, so that no figure includes it.
Damage anywhere else refuses the file.
"""

from __future__ import annotations

import json
import math
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from evprof.core.errors import UserError
from evprof.core.plain import UnfitError, hints_of, reader_of
from evprof.core.recording import RecordLog, Texts
from evprof.core.records import STREAMS, TARGET
from evprof.core.run_info import FAILED, RUNNING, RunInfo
from evprof.core.sample import Sample
from evprof.core.vocabulary.settings import settings_from_json
from evprof.session import chunk
from evprof.session.migrations import format_of, migrate
from evprof.session.opening import MOST_BYTES, bytes_in, logs, read_text
from evprof.session.presence import is_written
from evprof.session.store import WRITER_GONE
from evprof.session.tables import COLUMNS, COUNTS, FORMAT, ROW_STREAMS, DamageError, checked, select, whole_rows
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

Unpacked = tuple[str, list[Any]]
"""A stream's name and its columns."""


def attempted(path: Path, read: Callable[[], _T]) -> _T:
    """The result of `read` on one state of a session file. Repeats it while another program writes. Raises UserError.

    `read` raises sqlite3.Error, OSError, UnicodeDecodeError or DamageError.
    """
    try:
        for _ in range(ATTEMPTS):
            before = fingerprint(path)
            try:
                result = read()
            except (sqlite3.Error, OSError, UnicodeDecodeError, DamageError) as error:
                if fingerprint(path) == before and not _is_passing(error):
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


def _is_passing(error: Exception) -> bool:
    """Whether it is about locks that another program holds for a moment, such as one that is being killed."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK)
    return code in (sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_BUSY)


def fingerprint(path: Path) -> tuple[int, int, int, bool]:
    """Changes whenever the file is written or replaced, and with the presence of a log."""
    status = path.stat()
    return status.st_mtime_ns, status.st_size, status.st_ino, bool(logs(path))


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
            copy.text_factory = read_text
            stack.callback(copy.close)
            connection.backup(copy)
            migrate(copy)
            connection = copy
        self.connection = connection
        self._shared: dict[tuple[str, bytes], Any] = {}
        self._chunks: dict[int, Unpacked] = {}
        # A view in place of a table could compute for ever.
        kinds = {name: kind for kind, name in connection.execute("SELECT type, name FROM sqlite_master")}
        for table in COLUMNS:
            if kinds.get(table) != "table":
                raise DamageError(f"it has no table '{table}'")
        self._counts = self._read_counts()
        ranges = "SELECT chunk_id, coalesce(first_run, -1), coalesce(last_run, -1) FROM chunks ORDER BY chunk_id"
        try:
            rows = np.array(connection.execute(ranges).fetchall(), dtype=np.int64)
        except (ValueError, TypeError, OverflowError) as error:
            raise DamageError("the runs of its chunks are not what evprof writes") from error
        self._runs_of_chunks = rows.reshape(-1, 3)
        self._check_count("chunks", len(self._runs_of_chunks))
        for stream in ROW_STREAMS:
            self._check_count(stream, self._one(f"SELECT count(*) FROM {stream}"))

    def _one(self, query: str) -> Any:
        return self.connection.execute(query).fetchone()[0]

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
        return int(self._one("SELECT sum(row_count) FROM chunks") or 0) + self._counts["tensors"]

    def facts(self) -> dict[str, Any]:
        """What the table `session` holds. Raises DamageError."""
        return {key: self.json(value) for key, value in self._whole("session")}

    def infos(self) -> list[RunInfo]:
        """All that is known of every run but its rows. A run with damaged facts is a failed one that says so.

        Raises DamageError for a row that is missing, and for checked facts that evprof does not write.
        """
        hashes: dict[int, dict[str, str | None]] = {}
        for run_id, kind, _, content_hash in self._whole("samples"):
            hashes.setdefault(run_id, {})[kind] = content_hash
        is_being_written = is_written(self.path)
        infos = []
        rows = self.connection.execute(f"{select('runs')} ORDER BY rowid").fetchall()
        self._check_count("runs", len(rows))
        for row in rows:
            try:
                run_id, _, _, _, text = checked("runs", row)
            except DamageError:
                error = "The facts of this run are damaged in the file."
                infos.append(RunInfo(row[0], row[0], 0, TARGET, TARGET, status=FAILED, error=error))
                continue
            info = self._info(text)
            if info is None or info.run_id != run_id:
                raise DamageError(f"the facts of run {run_id} are not what evprof writes")
            sample, known = info.sample, hashes.get(run_id, {})
            if known:
                events, video = sample.events_hash or known.get("events"), sample.video_hash or known.get("video")
                info.sample = replace(sample, events_hash=events, video_hash=video)
            if info.status == RUNNING and not is_being_written:
                info.status, info.error = FAILED, WRITER_GONE
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
        self._left_bytes = self._most_bytes
        row = self.connection.execute(f"{select('figures')} WHERE run_id = ?", (run_id,)).fetchone()
        try:
            figures = None if row is None else self.json(checked("figures", row)[1])
        except DamageError:
            return None
        return figures if isinstance(figures, dict) else None

    def rows(self, run_id: int) -> RecordLog:
        """The rows of a run. Raises DamageError for content that evprof does not write."""
        self._left_bytes = self._most_bytes
        recording, table = RecordLog(), self._runs_of_chunks
        for chunk_id, first, last in table[(table[:, 1] <= run_id) & (table[:, 2] >= run_id)].tolist():
            stream, columns = self._unpacked(chunk_id, is_shared=first != last)
            mask = columns[0] == run_id
            if mask.all():
                recording.streams[stream].extend_columns(columns)
            elif mask.any():
                recording.streams[stream].extend_columns([_masked(column, mask) for column in columns])
        for stream in ROW_STREAMS:
            recording.extend(stream, [values[1:] for values in self._rows_of(stream, run_id)])
        for stream, name in _NUMBER_LISTS:
            if not all(map(_NUMBERS.match, recording.streams[stream].texts(name).words)):
                raise DamageError(f"a {name} among its {stream} is no list of numbers")
        if problem := implausible(recording):
            raise DamageError(problem)
        return recording

    def _unpacked(self, chunk_id: int, *, is_shared: bool) -> Unpacked:
        """Stream and columns of a chunk, not to be changed. Raises DamageError."""
        known = self._chunks.get(chunk_id)
        if known is not None:
            return known
        row = self.connection.execute(f"{select('chunks')} WHERE chunk_id = ?", (chunk_id,)).fetchone()
        _, stream, row_count, _, _, content, _, _ = checked("chunks", row)
        if stream not in STREAMS or stream in ROW_STREAMS:
            raise DamageError(f"it has rows of the unknown kind '{stream[:40]}'")
        try:
            columns = chunk.unpack(stream, row_count, content)
        except chunk.ChunkError as error:
            raise DamageError(f"a block of its {stream} cannot be unpacked ({error})") from error
        self.spend(8 * row_count * len(columns) + len(content))
        if is_shared:
            if len(self._chunks) >= _MOST_CHUNKS:
                self._chunks.pop(next(iter(self._chunks)))
            self._chunks[chunk_id] = stream, columns
        return stream, columns

    def _rows_of(self, stream: str, run_id: int) -> Iterator[tuple[Any, ...]]:
        for values in whole_rows(self.connection, stream, f"WHERE run_id = {run_id:d}"):
            self.spend(8 * len(values) + sum(len(value) for value in values if isinstance(value, str)))
            yield values

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


def _masked(column: Any, mask: Any) -> Any:
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
