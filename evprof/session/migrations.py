"""From every older format to the present one, step by step.

A step is never changed once a program that wrote its format was released; the golden files under tests/session/golden
hold us to that. A reader migrates a copy in memory, a writer the file itself.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping

from evprof.session.schema import FORMAT


def _to_2(_connection: sqlite3.Connection) -> None:
    """Format 2 may hold the stream `judgements`, which an older program would take for damage; format 1 has none."""


def _to_3(_connection: sqlite3.Connection) -> None:
    """Format 3 may hold the stream `power`; what an older session drew was not measured."""


MIGRATIONS: Mapping[int, Callable[[sqlite3.Connection], None]] = {1: _to_2, 2: _to_3}
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
