"""The rows of a session's tables as they were written: each against its checksum, all against the tally."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from evprof.session.checksums import DamageError, Tally, checksum
from evprof.session.schema import CHECKSUM, COLUMNS, TALLY

_MODULUS = 1 << 32
_LEAST_ROW_BYTES = 8

_KINDS = {"INTEGER": int, "TEXT": str, "BLOB": bytes}


@dataclass(frozen=True)
class DamagedRow:
    """A row that cannot be read, or says other things than were written: `values` as far as there are any."""

    row_id: int
    values: tuple[Any, ...] | None


class CheckedRows:
    """Reads the tables of one open session of the present format."""

    def __init__(self, connection: sqlite3.Connection, tally: Tally, file_bytes: int) -> None:
        self._connection = connection
        self._tally = tally
        # A count is a claim, and may be asked for one by one.
        if any(count < 0 or count * _LEAST_ROW_BYTES > file_bytes for count, _ in tally.values()):
            raise DamageError("the count of its rows is impossible")

    def whole(self, table: str) -> Iterator[tuple[Any, ...]]:
        """All rows in column order. Raises DamageError, sqlite3.Error unless every one is as it was written."""
        found, count, total = None, 0, 0
        for row in self._connection.execute(f"{select(table)} ORDER BY rowid"):
            found = checked(row)
            if found is None:
                raise DamageError(f"a row of its table '{table}' is not as it was written")
            if not (table == "session" and found[0] == TALLY):
                count, total = count + 1, total + row[-1]
            yield fitting_kinds(table, found)
        self._compare(table, count, total)

    def each(self, table: str) -> Iterator[tuple[Any, ...] | DamagedRow]:
        """All rows in order of their number, the first column, and in place of every damaged one what is left of it.

        Raises DamageError when rows are missing.
        """
        count, total, damaged = 0, 0, 0
        for row in self._numbered(table):
            found = None if isinstance(row, int) else checked(row)
            count += 1
            if found is None:
                damaged += 1
                yield DamagedRow(row, None) if isinstance(row, int) else DamagedRow(row[0], row[:-1])
                continue
            total += row[-1]
            yield fitting_kinds(table, found)
        self._compare(table, count, None if damaged else total)

    def _numbered(self, table: str) -> Iterator[Any]:
        """Rows, and the numbers of those that SQLite cannot get at."""
        number, last = next(iter(COLUMNS[table])), 0
        try:
            for row in self._connection.execute(f"{select(table)} ORDER BY {number}"):
                if not isinstance(row[0], int) or row[0] <= last:
                    break
                yield row
                last = row[0]
            else:
                return
        except (sqlite3.Error, UnicodeDecodeError):
            pass  # a page is damaged: the rows that do not lie on it are asked for by number
        for row_id in range(last + 1, self._tally[table][0] + 1):
            try:
                row = self._connection.execute(f"{select(table)} WHERE {number} = ?", (row_id,)).fetchone()
            except (sqlite3.Error, UnicodeDecodeError):
                row = None
            yield row_id if row is None or row[0] != row_id else row

    def _compare(self, table: str, count: int, total: int | None) -> None:
        expected, expected_total = self._tally[table]
        if count != expected or (total is not None and total % _MODULUS != expected_total):
            raise DamageError(f"rows of its table '{table}' are missing or not the last that were written")


def select(table: str) -> str:
    """Asks for all rows of a table, with their checksums."""
    return f"SELECT {', '.join([*COLUMNS[table], CHECKSUM])} FROM {table}"


def checked(row: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The values of a row whose last one is their checksum; None where they are not as they were written."""
    values = row[:-1]
    is_plain = all(value is None or isinstance(value, (int, str, bytes)) for value in values)
    return values if is_plain and checksum(values) == row[-1] else None


def fitting_kinds(table: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Values of the kinds their columns hold; SQLite itself promises no types, and a checksum says nothing of them."""
    for value, declared in zip(values, COLUMNS[table].values(), strict=True):
        kind, _, rest = declared.partition(" ")
        if not isinstance(value, _KINDS[kind]) and not (value is None and not rest):
            raise DamageError("a value is not of the kind evprof writes")
    return values
