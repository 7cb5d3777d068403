"""From every older format to the present one, step by step.

A step is never changed once a program that wrote its format was released; the golden files under tests/session/golden
check that. A reader migrates a private copy, a writer the file itself.
"""

from __future__ import annotations

import json
import math
import sqlite3
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from evprof.core.plain import hints_of
from evprof.core.run_info import RunInfo
from evprof.session import chunk
from evprof.session.tables import COUNTS, FORMAT, Tables, checksum, counts_of, create_indexes, create_table, seal


def _nothing(_connection: sqlite3.Connection) -> None:
    """Formats 2, 3 and 5 may hold the streams `judgements`, `power` and `alternatives`; format 7 has two more columns
    in rounds. Older sessions recorded none of these."""


def _to_4(connection: sqlite3.Connection) -> None:
    """Format 4 has a checksum in every row and the runs of every chunk; older rows are taken as they are."""
    for table in ("session", "runs", "samples", "tensors", "chunks"):
        connection.execute(f"ALTER TABLE {table} ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0")
    connection.execute("ALTER TABLE chunks ADD COLUMN first_run INTEGER")
    connection.execute("ALTER TABLE chunks ADD COLUMN last_run INTEGER")
    for (chunk_id,) in connection.execute("SELECT chunk_id FROM chunks").fetchall():
        row = connection.execute("SELECT row_count, content FROM chunks WHERE chunk_id = ?", (chunk_id,)).fetchone()
        with suppress(chunk.ChunkError, TypeError):  # the reader refuses an invalid chunk
            runs = chunk.run_range(*row)
            connection.execute("UPDATE chunks SET first_run = ?, last_run = ? WHERE chunk_id = ?", (*runs, chunk_id))
    seal(connection)


def _to_6(connection: sqlite3.Connection) -> None:
    """Format 6 added the tables `words` and `summaries`, which format 8 replaces."""
    connection.execute("CREATE TABLE words (word_id INTEGER PRIMARY KEY, word TEXT, checksum INTEGER)")
    connection.execute("CREATE TABLE summaries (run_id INTEGER, layout INTEGER, numbers BLOB, checksum INTEGER)")


def _to_8(connection: sqlite3.Connection) -> None:
    """Format 8 keeps figures as JSON by run, in place of packed numbers and numbered words."""
    create_table(connection, "figures")
    words = dict(connection.execute("SELECT word_id, word FROM words WHERE typeof(word) = 'text'"))
    for run_id, layout, numbers in connection.execute("SELECT run_id, layout, numbers FROM summaries").fetchall():
        # The reader computes the figures of an invalid summary from the rows.
        with suppress(ValueError, KeyError, TypeError, struct.error, RecursionError):
            row = (run_id, json.dumps(_unpacked(json.loads(words[layout]), numbers, words)))
            connection.execute("INSERT INTO figures VALUES (?, ?, ?)", (*row, checksum(row)))
    for table in ("words", "summaries"):
        connection.execute(f"DROP TABLE {table}")
    told = connection.execute("SELECT value FROM session WHERE key = ?", (COUNTS,)).fetchone()
    counts = _counts(told[0]) if told else {}
    create_indexes(connection)
    # What older programs counted stays: the reader compares it with the rows.
    Tables(connection, counts_of(connection) | counts).write_counts()


def _unpacked(layout: list[tuple[str, str]], numbers: bytes, words: Mapping[int, str]) -> dict[str, Any]:
    """The figures of a summary: `layout` is (name, kind) of each number, kinds as in `struct`, texts being numbers of
    words."""
    values = struct.unpack("<" + "".join(kind for _, kind in layout), numbers)
    figures: dict[str, Any] = {}
    for (name, kind), value in zip(layout, values, strict=True):
        if name in hints_of(RunInfo) or name in _PLACES:
            continue
        is_missing = value == {"i": -1, "q": -(1 << 63)}.get(kind) or (kind == "d" and math.isnan(value))
        found = None if is_missing else json.loads(words[value]) if kind == "i" else value
        figures[name.lstrip("_")] = bool(found) if name in _TRUTHS and found is not None else found
    return figures


_TRUTHS = ("has_pieces", "has_open_stages", "is_throttled")
_PLACES = ("first_chunk", "last_chunk", "first_tensor", "last_tensor", "environment_of_run")
"""Columns of a summary that are neither figures nor fields of a run."""


def _counts(text: object) -> dict[str, int]:
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        found = None
    entries = found.items() if isinstance(found, dict) else ()
    listed = {name: value[0] for name, value in entries if isinstance(value, list) and value}
    return {name: count for name, count in listed.items() if isinstance(count, int) and name in _COUNTED}


_COUNTED = ("session", "runs", "samples", "tensors", "chunks")

MIGRATIONS: Mapping[int, Callable[[sqlite3.Connection], None]] = {
    1: _nothing,
    2: _nothing,
    3: _to_4,
    4: _nothing,
    5: _to_6,
    6: _nothing,
    7: _to_8,
}
"""Format -> what makes it the next one. Format 1 is the first."""


def format_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(
    connection: sqlite3.Connection,
    steps: Mapping[int, Callable[[sqlite3.Connection], None]] = MIGRATIONS,
    to_format: int = FORMAT,
) -> None:
    """Brings an open session to `to_format` in one transaction; does nothing for one that has it."""
    if format_of(connection) == to_format:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for number in range(format_of(connection), to_format):
            steps[number](connection)
            connection.execute(f"PRAGMA user_version = {number + 1}")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
