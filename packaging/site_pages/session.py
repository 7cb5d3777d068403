"""What is in a session file, from the records and the schema."""

from __future__ import annotations

import contextlib
import inspect
import sqlite3
from collections.abc import Iterator

from evprof.core.records import STREAMS, column_kinds
from evprof.session import chunk, schema
from site_pages.markdown import code, prose, table

_INTRODUCTION = f"""# The session file

A session (`{schema.SUFFIX}`) is one SQLite file: any SQLite tool opens it. It is marked with the application id
`{schema.APPLICATION_ID:#x}`, and `user_version` is the number of the format, now {schema.FORMAT}. An older evprof
refuses a newer format in a sentence; a newer evprof reads every older one. To read figures rather than rows, use
[`evprof show --json`](../json.md).

## Tables
"""

_STREAMS = """
## Streams

Everything that was measured is a stream of records. {rows} are ordinary rows; all other streams lie in `chunks`: each
commit (every 250 ms while a run goes on) writes one row per stream, with its columns as little-endian arrays in one
BLOB. Times are nanoseconds on the clock of the process that measured.
"""


def page() -> str:
    """The page."""
    rows = ", ".join(map(code, schema.ROW_STREAMS)).capitalize()
    return "\n".join((_INTRODUCTION, *_tables(), *_packing(), _STREAMS.format(rows=rows), *_streams()))


def _tables() -> Iterator[str]:
    """As SQLite tells the columns of an empty session."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as session:
        schema.create(session)
        names = [name for (name,) in session.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in names:
            yield f"### Table {code(name)}\n"
            columns = session.execute(f"PRAGMA table_info({name})").fetchall()
            yield table(("column", "type"), ((code(column[1]), column[2].lower()) for column in columns))


def _packing() -> Iterator[str]:
    yield "## How a chunk is packed\n"
    yield f"```text\n{inspect.cleandoc(chunk.__doc__ or '')}\n```\n"


def _streams() -> Iterator[str]:
    for name, kind in STREAMS.items():
        yield f"### {name}\n"
        for paragraph in inspect.cleandoc(kind.__doc__ or "").split("\n\n"):
            yield prose(paragraph) + "\n"
        yield table(("column", "type"), ((code(column), word) for column, word in column_kinds(name).items()))
