"""What a session file is: a SQLite database with our mark, a format number and five tables.

Bulk rows lie in `chunks`, one per stream and commit (see `chunk`); everything a person might want to ask SQL about,
runs, samples and tensor shapes, are ordinary rows.
"""

from __future__ import annotations

import sqlite3

SUFFIX = ".evprof"

APPLICATION_ID = 0x45565046
"""`EVPF`, at byte 68 of every session file."""

FORMAT = 3
"""Counted up with every change that an older reader would not understand; see `migrations`."""

ROW_STREAMS = ("tensors",)
"""Streams kept as ordinary rows, in a table of the stream's name whose columns are the record's fields."""

TABLES: dict[str, str] = {
    "session": "CREATE TABLE session (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "runs": (
        "CREATE TABLE runs (run_id INTEGER PRIMARY KEY, group_id INTEGER NOT NULL, status TEXT NOT NULL, text TEXT, "
        "info TEXT NOT NULL)"
    ),
    "samples": (
        "CREATE TABLE samples (run_id INTEGER NOT NULL, kind TEXT NOT NULL, path TEXT NOT NULL, content_hash TEXT, "
        "PRIMARY KEY (run_id, kind))"
    ),
    "tensors": (
        "CREATE TABLE tensors (tensor_id INTEGER PRIMARY KEY, run_id INTEGER NOT NULL, span_id INTEGER NOT NULL, "
        "direction TEXT NOT NULL, name TEXT NOT NULL, shape TEXT NOT NULL, dtype TEXT NOT NULL, "
        "nbytes INTEGER NOT NULL)"
    ),
    "chunks": (
        "CREATE TABLE chunks (chunk_id INTEGER PRIMARY KEY, stream TEXT NOT NULL, row_count INTEGER NOT NULL, "
        "first_ns INTEGER, last_ns INTEGER, content BLOB NOT NULL)"
    ),
}
"""Table name -> how it is made.

`session` holds JSON: created_at, evprof_version, environment, writer; and, after FACT_PREFIX, what a session is apart
from its runs: the suite it records, the files it was imported from, the comparisons saved with it.
"""

FACT_PREFIX = "fact:"
"""Before the key of everything in `session` that this module knows nothing of."""


def create(connection: sqlite3.Connection) -> None:
    """Makes an empty database a session of the present format, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    for statement in TABLES.values():
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    connection.execute("COMMIT")
