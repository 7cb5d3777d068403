"""From every older format to the present one, step by step.

A step is never changed once a program that wrote its format was released; the golden files under tests/session/golden
hold us to that. A reader migrates a copy in memory, a writer the file itself.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from evprof.session import chunk
from evprof.session.checksums import CheckedTables, read_tally
from evprof.session.schema import FORMAT, TALLY, create_table


def _to_2(_connection: sqlite3.Connection) -> None:
    """Format 2 may hold the stream `judgements`, which an older program would take for damage; format 1 has none."""


def _to_3(_connection: sqlite3.Connection) -> None:
    """Format 3 may hold the stream `power`; what an older session drew was not measured."""


def _to_4(connection: sqlite3.Connection) -> None:
    """Format 4 has a checksum in every row, the runs of every chunk, and a tally; older rows are taken as they are."""
    for table in ("session", "runs", "samples", "tensors", "chunks"):
        connection.execute(f"ALTER TABLE {table} ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0")
    connection.execute("ALTER TABLE chunks ADD COLUMN first_run INTEGER")
    connection.execute("ALTER TABLE chunks ADD COLUMN last_run INTEGER")
    for (chunk_id,) in connection.execute("SELECT chunk_id FROM chunks").fetchall():
        row = connection.execute("SELECT row_count, content FROM chunks WHERE chunk_id = ?", (chunk_id,)).fetchone()
        with suppress(chunk.ChunkError, TypeError):  # what is no chunk is refused by whoever reads it
            found = chunk.run_range(*row)
            connection.execute("UPDATE chunks SET first_run = ?, last_run = ? WHERE chunk_id = ?", (*found, chunk_id))
    CheckedTables.empty(connection).recount()


def _to_5(_connection: sqlite3.Connection) -> None:
    """Format 5 may hold the stream `alternatives`; an older session recorded none."""


def _to_6(connection: sqlite3.Connection) -> None:
    """Format 6 keeps a summary of every run that has ended; older runs have none, and are read as a whole."""
    for table in ("words", "summaries"):
        create_table(connection, table)
    row = connection.execute("SELECT value FROM session WHERE key = ?", (TALLY,)).fetchone()
    # A tally that is none is told by whoever reads it.
    tally = read_tally({"words": [0, 0], "summaries": [0, 0]} | _table(row[0])) if row else None
    if tally is not None:
        CheckedTables(connection, tally).write_tally()


def _to_7(_connection: sqlite3.Connection) -> None:
    """Format 7 tells of a round how deep it drafted and what was judged; chunks of older ones lack these columns."""


def _table(text: object) -> dict[str, Any]:
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


MIGRATIONS: Mapping[int, Callable[[sqlite3.Connection], None]] = {
    1: _to_2,
    2: _to_3,
    3: _to_4,
    4: _to_5,
    5: _to_6,
    6: _to_7,
}
"""Format -> what makes it the next one. Format 1 is the first."""


def format_of(connection: sqlite3.Connection) -> int:
    """The format number of an open session."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(
    connection: sqlite3.Connection,
    steps: Mapping[int, Callable[[sqlite3.Connection], None]] = MIGRATIONS,
    to_format: int = FORMAT,
) -> None:
    """Brings an open session to `to_format` in one transaction; nothing to do when it is there already."""
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
