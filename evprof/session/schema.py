"""What a session file is: a SQLite database with our mark, a format number and six tables.

Bulk rows lie in `chunks`, one per stream and commit (see `chunk`). Runs, samples and tensor shapes are ordinary rows.
`figures` holds a JSON object per run that has ended: its figures by name, so that lists and comparisons of many runs
need not read the chunks. Every row carries a checksum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

SUFFIX = ".evprof"

APPLICATION_ID = 0x45565046
"""`EVPF`, at byte 68 of every session file."""

FORMAT = 8
"""Counted up with every change that an older reader would not understand; see `migrations`."""

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
    "figures": {"run_id": "INTEGER PRIMARY KEY", "figures": "TEXT NOT NULL"},
}
"""Table name -> column name -> what it holds. `first_run` and `last_run` are a chunk's smallest and largest run.

`session` holds JSON: created_at, evprof_version, environment, writer, the counts of rows; and, after FACT_PREFIX, what
a session is apart from its runs: the suite it records, the files it was imported from, the comparisons saved with it.
"""

INDEXES = {
    "chunk_runs": "chunks(first_run, last_run)",
    "tensor_runs": "tensors(run_id)",
}
"""The rows of one run are found by these."""

_KEYS = {"samples": "PRIMARY KEY (run_id, kind)"}

COUNTS = "tally"
"""The key in `session` of how many rows each table holds."""

FACT_PREFIX = "fact:"
"""Before the key of everything in `session` that this module knows nothing of."""


def create_table(connection: sqlite3.Connection, table: str) -> None:
    """Creates one of the tables."""
    parts = [f"{name} {kind}" for name, kind in COLUMNS[table].items()] + [f"{CHECKSUM} INTEGER NOT NULL"]
    connection.execute(f"CREATE TABLE {table} ({', '.join([*parts, *filter(None, [_KEYS.get(table)])])})")


def create_indexes(connection: sqlite3.Connection) -> None:
    """Creates the indexes."""
    for name, columns in INDEXES.items():
        connection.execute(f"CREATE INDEX {name} ON {columns}")


def create(connection: sqlite3.Connection) -> None:
    """Makes an empty database a session of the present format, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    for table in COLUMNS:
        create_table(connection, table)
    create_indexes(connection)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    connection.execute("COMMIT")
