"""What a session file is: a SQLite database with our mark, a format number and seven tables.

Bulk rows lie in `chunks`, one per stream and commit (see `chunk`); everything a person might want to ask SQL about,
runs, samples and tensor shapes, are ordinary rows. What lists and comparisons need of every run lies in `summaries`
(see there), with its texts in `words`. Every row carries a checksum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

SUFFIX = ".evprof"

APPLICATION_ID = 0x45565046
"""`EVPF`, at byte 68 of every session file."""

FORMAT = 7
"""Counted up with every change that an older reader would not understand; see `migrations`."""

SUMMARIZED = 6
"""From this format on a session has summaries, and its tables are as they are now."""

ROW_STREAMS = ("tensors",)
"""Streams kept as ordinary rows, in a table of the stream's name whose columns are the record's fields."""

CHECKSUM = "checksum"
"""The last column of every table: of the row's other values, see `checksums`."""

COLUMNS: dict[str, dict[str, str]] = {
    "session": {"key": "TEXT PRIMARY KEY", "value": "TEXT NOT NULL"},
    "runs": {
        "run_id": "INTEGER PRIMARY KEY",
        "group_id": "INTEGER NOT NULL",
        "status": "TEXT NOT NULL",
        "text": "TEXT",
        "info": "TEXT NOT NULL",
    },
    "samples": {
        "run_id": "INTEGER NOT NULL",
        "kind": "TEXT NOT NULL",
        "path": "TEXT NOT NULL",
        "content_hash": "TEXT",
    },
    "tensors": {
        "tensor_id": "INTEGER PRIMARY KEY",
        "run_id": "INTEGER NOT NULL",
        "span_id": "INTEGER NOT NULL",
        "direction": "TEXT NOT NULL",
        "name": "TEXT NOT NULL",
        "shape": "TEXT NOT NULL",
        "dtype": "TEXT NOT NULL",
        "nbytes": "INTEGER NOT NULL",
    },
    "chunks": {
        "chunk_id": "INTEGER PRIMARY KEY",
        "stream": "TEXT NOT NULL",
        "row_count": "INTEGER NOT NULL",
        "first_ns": "INTEGER",
        "last_ns": "INTEGER",
        "content": "BLOB NOT NULL",
        "first_run": "INTEGER",
        "last_run": "INTEGER",
    },
    "words": {"word_id": "INTEGER PRIMARY KEY", "word": "TEXT NOT NULL"},
    "summaries": {"run_id": "INTEGER PRIMARY KEY", "layout": "INTEGER NOT NULL", "numbers": "BLOB NOT NULL"},
}
"""Table name -> column name -> what it holds. `first_run` and `last_run` are a chunk's smallest and largest run.

`session` holds JSON: created_at, evprof_version, environment, writer, the tally (see `checksums`); and, after
FACT_PREFIX, what a session is apart from its runs: the suite it records, the files it was imported from, the
comparisons saved with it.
"""

_KEYS = {"samples": "PRIMARY KEY (run_id, kind)"}

TALLY = "tally"
"""The key in `session` of how many rows each table holds, and the sum of their checksums."""

FACT_PREFIX = "fact:"
"""Before the key of everything in `session` that this module knows nothing of."""


def create_table(connection: sqlite3.Connection, table: str) -> None:
    """Makes one of the tables."""
    parts = [f"{name} {kind}" for name, kind in COLUMNS[table].items()] + [f"{CHECKSUM} INTEGER NOT NULL"]
    connection.execute(f"CREATE TABLE {table} ({', '.join([*parts, *filter(None, [_KEYS.get(table)])])})")


def create(connection: sqlite3.Connection) -> None:
    """Makes an empty database a session of the present format, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    for table in COLUMNS:
        create_table(connection, table)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    connection.execute("COMMIT")
