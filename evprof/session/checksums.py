"""What tells a damaged session from a whole one: a checksum in every row, and a tally of all rows.

SQLite checks the shape of its pages, not their content: of 400 single flipped bits 13 read as other numbers. A checksum
tells a changed row, the tally a row that is gone, there twice, or an older state of itself. Both are CRC-32: against
accidents, not against people.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from evprof.session.schema import CHECKSUM, COLUMNS, TALLY

if TYPE_CHECKING:
    import sqlite3

_MODULUS = 1 << 32


class DamageError(Exception):
    """What is wrong with the content, in words."""


def checksum(values: Iterable[Any]) -> int:
    """CRC-32 of a row's values in the order of its columns: text, integers, bytes and NULL as SQLite keeps them."""
    found = 0
    for value in values:
        if isinstance(value, (bytes, memoryview)):
            kind, body = b"b", value
        elif isinstance(value, str):
            kind, body = b"s", value.encode("utf-8", "surrogatepass")
        else:
            kind, body = b"n" if value is None else b"i", b"" if value is None else b"%d" % value
        found = zlib.crc32(body, zlib.crc32(b"%b%d:" % (kind, len(body)), found))
    return found


def numbered_checksum(first: int, second: int, body: bytes) -> int:
    """`checksum` of two integers and bytes, for reading very many such rows."""
    one, two = b"%d" % first, b"%d" % second
    return zlib.crc32(body, zlib.crc32(b"i%d:%bi%d:%bb%d:" % (len(one), one, len(two), two, len(body))))


Tally = dict[str, tuple[int, int]]
"""Table -> how many rows it holds, the sum of their checksums modulo 2^32. The tally's own row is not among them."""


def read_tally(value: object) -> Tally | None:
    """A tally from JSON; None for anything else."""
    if not isinstance(value, Mapping) or set(value) != set(COLUMNS):
        return None
    pairs = {name: entry for name, entry in value.items() if isinstance(entry, list) and len(entry) == 2}
    if len(pairs) != len(value) or not all(type(number) is int for entry in pairs.values() for number in entry):
        return None
    return {name: (count, total) for name, (count, total) in pairs.items()}


class CheckedTables:
    """The tables of an open session: every row written with its checksum and counted in the tally."""

    def __init__(self, connection: sqlite3.Connection, tally: Tally) -> None:
        self._connection = connection
        self._tally = tally

    @classmethod
    def opened(cls, connection: sqlite3.Connection) -> CheckedTables:
        """Those of a session that is there. Raises ValueError for one that is damaged."""
        row = connection.execute("SELECT value FROM session WHERE key = ?", (TALLY,)).fetchone()
        tally = read_tally(json.loads(row[0])) if row else None
        if tally is None:
            raise ValueError("the count of its rows is missing")
        return cls(connection, tally)

    @classmethod
    def empty(cls, connection: sqlite3.Connection) -> CheckedTables:
        """Those of a session that holds nothing yet."""
        return cls(connection, dict.fromkeys(COLUMNS, (0, 0)))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is written inside is kept, or, after an exception, nothing of it."""
        before = dict(self._tally)
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.write_tally()
            self._connection.execute("COMMIT")
        except BaseException:
            self._tally = before
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def insert(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        """Adds rows, whole and in column order. Raises sqlite3.IntegrityError where one is there already."""
        checked = [(*row, checksum(row)) for row in rows]
        marks = ", ".join("?" * (len(COLUMNS[table]) + 1))
        names = ", ".join([*COLUMNS[table], CHECKSUM])
        self._connection.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", checked)
        self._count(table, len(checked), sum(row[-1] for row in checked))

    def put(self, table: str, row: Sequence[Any], keys: int = 1) -> None:
        """Changes the row whose first `keys` columns are those of `row`, or adds it when there is none."""
        columns = list(COLUMNS[table])
        where = " AND ".join(f"{name} = ?" for name in columns[:keys])
        found = self._connection.execute(f"SELECT {CHECKSUM} FROM {table} WHERE {where}", row[:keys]).fetchone()
        if found is None:
            self.insert(table, [row])
            return
        new = checksum(row)
        changes = ", ".join(f"{name} = ?" for name in [*columns[keys:], CHECKSUM])
        self._connection.execute(f"UPDATE {table} SET {changes} WHERE {where}", (*row[keys:], new, *row[:keys]))
        self._count(table, 0, new - found[0])

    def remove(self, table: str, key: object) -> None:
        """Takes the row out of a table whose first column is `key`, if it is there."""
        where = f"WHERE {next(iter(COLUMNS[table]))} = ?"
        for (found,) in self._connection.execute(f"SELECT {CHECKSUM} FROM {table} {where}", (key,)).fetchall():
            self._connection.execute(f"DELETE FROM {table} {where}", (key,))
            self._count(table, -1, -found)

    def recount(self) -> None:
        """Gives every row the checksum of what it holds now, and counts all anew: for rows that had none."""
        self._tally = dict.fromkeys(COLUMNS, (0, 0))
        self._connection.execute("DELETE FROM session WHERE key = ?", (TALLY,))
        there = {name for (name,) in self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table, columns in COLUMNS.items():
            if table not in there:
                continue  # of a later format than the one that is made
            # One row at a time: the pictures of a session need not fit into memory twice.
            for (rowid,) in self._connection.execute(f"SELECT rowid FROM {table}").fetchall():
                row = self._connection.execute(
                    f"SELECT {', '.join(columns)} FROM {table} WHERE rowid = ?", (rowid,)
                ).fetchone()
                if row is None:  # the file's own index and its rows do not agree
                    import sqlite3

                    raise sqlite3.DatabaseError(f"row {rowid} of {table} is not where it is said to be")
                new = checksum(row)
                self._connection.execute(f"UPDATE {table} SET {CHECKSUM} = ? WHERE rowid = ?", (new, rowid))
                self._count(table, 1, new)
        self.write_tally()

    def _count(self, table: str, rows: int, total: int) -> None:
        count, before = self._tally[table]
        self._tally[table] = (count + rows, (before + total) % _MODULUS)

    def write_tally(self) -> None:
        """Keeps the tally as it is now."""
        row = (TALLY, json.dumps(self._tally))
        self._connection.execute("INSERT OR REPLACE INTO session VALUES (?, ?, ?)", (*row, checksum(row)))
