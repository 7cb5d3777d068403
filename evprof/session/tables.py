"""Rows of a session's tables, written and read with a checksum in each, and the number of rows of each table.

SQLite checks the shape of its pages, not their content: of 400 single flipped bits 13 read as other numbers. The
checksum finds a changed row, the count a missing one. Both guard against accidents, not against people.
"""

from __future__ import annotations

import json
import secrets
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

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

_SCHEMA = {
    "session": "key TEXT PRIMARY KEY, value TEXT NOT NULL",
    "runs": "run_id INTEGER PRIMARY KEY, group_id INTEGER NOT NULL, status TEXT NOT NULL, text TEXT, "
    "info TEXT NOT NULL",
    "samples": "run_id INTEGER NOT NULL, kind TEXT NOT NULL, path TEXT NOT NULL, content_hash TEXT",
    "tensors": "tensor_id INTEGER PRIMARY KEY, run_id INTEGER NOT NULL, span_id INTEGER NOT NULL, "
    "direction TEXT NOT NULL, name TEXT NOT NULL, shape TEXT NOT NULL, dtype TEXT NOT NULL, nbytes INTEGER NOT NULL",
    "chunks": "chunk_id INTEGER PRIMARY KEY, stream TEXT NOT NULL, row_count INTEGER NOT NULL, first_ns INTEGER, "
    "last_ns INTEGER, content BLOB NOT NULL, first_run INTEGER, last_run INTEGER",
    "figures": "run_id INTEGER PRIMARY KEY, figures TEXT NOT NULL",
}
COLUMNS = {table: dict(part.split(" ", 1) for part in parts.split(", ")) for table, parts in _SCHEMA.items()}
"""Table name -> column name -> what it holds. `first_run` and `last_run` are a chunk's smallest and largest run;
`first_ns` and `last_ns` are of older sessions.

`session` holds JSON: created_at, evprof_version, environment, writer, the counts of rows; and, after FACT_PREFIX, what
a session is apart from its runs: the suite it records, the files it was imported from, the comparisons saved with it.
`samples` holds the inputs' hashes of older sessions; newer ones keep them in `info`.
"""

COUNTS = "tally"
"""The key in `session` of how many rows each table holds."""

WRITER = "writer"
"""The key in `session` of the random mark of the program that writes it."""

FACT_PREFIX = "fact:"
"""Before the key of everything in `session` that this module knows nothing of."""


def create_table(connection: sqlite3.Connection, table: str) -> None:
    key = ", PRIMARY KEY (run_id, kind)" if table == "samples" else ""
    connection.execute(f"CREATE TABLE {table} ({_SCHEMA[table]}, {CHECKSUM} INTEGER NOT NULL{key})")


_INDEXES = {"chunk_runs": "chunks(first_run, last_run)", "tensor_runs": "tensors(run_id)"}


def create_indexes(connection: sqlite3.Connection) -> None:
    for index, columns in _INDEXES.items():
        connection.execute(f"CREATE INDEX {index} ON {columns}")


def create(connection: sqlite3.Connection) -> None:
    """Makes an empty database a session of the present format, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    for table in COLUMNS:
        create_table(connection, table)
    create_indexes(connection)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    connection.execute("COMMIT")


def active_parts(connection: sqlite3.Connection) -> list[str]:
    """What of a database's schema SQLite carries out when a row is written, and no session of ours has: triggers,
    views, other indexes, computed columns."""
    listed = connection.execute("SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'").fetchall()
    parts = [f"{kind} {name}" for kind, name in listed if kind != "table" and name not in _INDEXES]
    for table in (name for kind, name in listed if kind == "table"):
        columns = connection.execute("SELECT name FROM pragma_table_xinfo(?) WHERE hidden", (table,))
        parts += [f"column {name}" for (name,) in columns]
    return parts


_KINDS = {"INTEGER": int, "TEXT": str, "BLOB": bytes}


class DamageError(ValueError):
    """What is wrong with the content, in words."""


class OtherWriterError(ValueError):
    """Another program wrote into the session while this one had it open for writing."""


def checksum(values: Iterable[Any]) -> int:
    """CRC-32 of a row's values in the order of its columns: text, integers, bytes and NULL as SQLite stores them.

    Raises UnicodeEncodeError for text that is not UTF-8 in the file.
    """
    total = 0
    for value in values:
        if isinstance(value, (bytes, memoryview)):
            kind, body = b"b", value
        elif isinstance(value, str):
            kind, body = b"s", value.encode()
        else:
            kind, body = b"n" if value is None else b"i", b"" if value is None else b"%d" % value
        total = zlib.crc32(body, zlib.crc32(b"%b%d:" % (kind, len(body)), total))
    return total


def select(table: str) -> str:
    return f"SELECT {', '.join([*COLUMNS[table], CHECKSUM])} FROM {table}"


def checked(table: str, row: tuple[Any, ...] | None) -> tuple[Any, ...]:
    """The values of a row whose last one is their checksum.

    Raises DamageError unless they are as written. SQLite itself promises no types.
    """
    values = () if row is None else row[:-1]
    is_plain = all(value is None or isinstance(value, (int, str, bytes)) for value in values)
    try:
        is_whole = row is not None and is_plain and checksum(values) == row[-1]
    except UnicodeEncodeError:
        is_whole = False
    if not is_whole:
        raise DamageError(f"a row of its table '{table}' is not as it was written")
    for value, declared in zip(values, COLUMNS[table].values(), strict=True):
        kind, _, rest = declared.partition(" ")
        if not isinstance(value, _KINDS[kind]) and not (value is None and not rest):
            raise DamageError("a value is not of the kind evprof writes")
    return values


def whole_rows(connection: sqlite3.Connection, table: str, where: str = "") -> Iterator[tuple[Any, ...]]:
    """All rows in order. Raises DamageError, sqlite3.Error unless each is as it was written."""
    for row in connection.execute(f"{select(table)} {where} ORDER BY rowid"):
        yield checked(table, row)


def counts_of(connection: sqlite3.Connection) -> dict[str, int]:
    """The number of rows in each table as it is now, without the row of the counts themselves."""
    counts = {table: int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]) for table in COLUMNS}
    own = connection.execute("SELECT count(*) FROM session WHERE key = ?", (COUNTS,)).fetchone()[0]
    return counts | {"session": counts["session"] - own}


def seal(connection: sqlite3.Connection) -> None:
    """Recomputes all checksums and counts: for rows that had none. Inside a transaction of the caller."""
    connection.execute("DELETE FROM session WHERE key = ?", (COUNTS,))
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for table in COLUMNS.keys() & there:
        # One row at a time: the pictures of a session need not fit into memory twice.
        for (row_id,) in connection.execute(f"SELECT rowid FROM {table}").fetchall():
            row = connection.execute(
                f"SELECT {', '.join(COLUMNS[table])} FROM {table} WHERE rowid = ?", (row_id,)
            ).fetchone()
            if row is None:
                raise DamageError(f"its index and the rows of its table '{table}' do not agree")
            connection.execute(f"UPDATE {table} SET {CHECKSUM} = ? WHERE rowid = ?", (checksum(row), row_id))
    if COLUMNS.keys() <= there:
        Tables(connection, counts_of(connection)).write_counts()


class Tables:
    """The tables of a session that is being written: every row gets its checksum, every table is counted."""

    def __init__(self, connection: sqlite3.Connection, counts: dict[str, int]) -> None:
        self._connection = connection
        self._counts = counts
        self._writer = ""

    def claim(self) -> None:
        """Marks the file as written by this writer. Inside a transaction of the caller."""
        self._writer = json.dumps(secrets.token_hex(8))
        self.put("session", (WRITER, self._writer))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything written inside is stored or, after an exception, nothing of it.

        Raises OtherWriterError where the lock did not keep another writer out: the counts are not those of the file.
        """
        before = dict(self._counts)
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            if self._writer and self._marked_writer() != self._writer:
                raise OtherWriterError("another program writes into it, too")
            yield
            self.write_counts()
            self._connection.execute("COMMIT")
        except BaseException:
            self._counts = before
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def _marked_writer(self) -> object:
        row = self._connection.execute("SELECT value FROM session WHERE key = ?", (WRITER,)).fetchone()
        return row[0] if row else None

    def insert(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        """Adds rows in column order. Raises sqlite3.IntegrityError where one is there already."""
        sealed = [(*row, checksum(row)) for row in rows]
        marks = ", ".join("?" * (len(COLUMNS[table]) + 1))
        names = ", ".join([*COLUMNS[table], CHECKSUM])
        self._connection.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", sealed)
        self._counts[table] += len(sealed)

    def put(self, table: str, row: Sequence[Any]) -> None:
        key, *columns = COLUMNS[table]
        changes = ", ".join(f"{name} = ?" for name in [*columns, CHECKSUM])
        values = (*row[1:], checksum(row), row[0])
        if not self._connection.execute(f"UPDATE {table} SET {changes} WHERE {key} = ?", values).rowcount:
            self.insert(table, [row])

    def remove(self, table: str, key: object) -> None:
        where = f"{next(iter(COLUMNS[table]))} = ?"
        self._counts[table] -= self._connection.execute(f"DELETE FROM {table} WHERE {where}", (key,)).rowcount

    def write_counts(self) -> None:
        row = (COUNTS, json.dumps(self._counts))
        self._connection.execute("INSERT OR REPLACE INTO session VALUES (?, ?, ?)", (*row, checksum(row)))
