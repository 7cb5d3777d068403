"""Sessions changed by hand: their checksums made right again, as an attacker would do it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from evprof.session import tables


def seal(path: Path) -> None:
    """Gives every row of the session at `path` the checksum of what it holds now.

    Raises sqlite3.Error where rows cannot be read, or where a view, which may be endless, replaces a table.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        if connection.execute("SELECT count(*) FROM sqlite_master WHERE type = 'view'").fetchone()[0]:
            raise sqlite3.DatabaseError("it has views")
        connection.execute("BEGIN")
        tables.seal(connection)
        connection.execute("COMMIT")
