"""Opens a session file for reading, without ever writing to it or beside it.

A closed session is read in place. One whose writer was killed (or still writes) has a log beside it; SQLite reads both
in place, too, as long as its index of the log is there. What is left, a log without its index and one that has to be
rolled back, is put together on a private copy, whose names are gone as soon as it is open.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import struct
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.files.whole_file import APPLICATION_ID_AT, SQLITE_MAGIC
from evprof.session import chunk
from evprof.session.tables import APPLICATION_ID, FORMAT, DamageError

MOST_BYTES = 4 << 30

_LONGEST_VALUE = chunk.MAX_BYTES + 4096
_LOG_HEADER_BYTES = 32


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that sees one state of the session. Raises sqlite3.Error, OSError, DamageError."""
    found = logs(path)
    if path.stat().st_size + sum(map(bytes_in, found)) > MOST_BYTES:
        raise DamageError(f"it takes more than {MOST_BYTES >> 30} GiB")
    address = path.resolve().as_uri()
    if not found:
        # Nothing of SQLite's may be created beside the file, not even the lock of a reader.
        with closing(_connect(f"{address}?mode=ro&immutable=1")) as connection:
            yield connection
    elif found == [_beside(path, "-wal")] and _beside(path, "-shm").is_file():
        with closing(_connect(f"{address}?mode=ro&readonly_shm=1")) as connection:
            connection.execute("BEGIN")
            yield connection
    else:
        with _private(path, found) as connection:
            yield connection


def copy_session(path: Path, copy: Path) -> None:
    """Writes one state of a session, whatever is in its log, into the file `copy`. Raises what `opened` does."""
    with opened(path) as connection, closing(sqlite3.connect(copy)) as other:
        connection.backup(other)


def logs(path: Path) -> list[Path]:
    """What SQLite left beside the file and has yet to fold in.

    A log of only its header says nothing, and SQLite waits for one whose writer was killed at just that point.
    """
    return [log for log in (_beside(path, "-wal"), _beside(path, "-journal")) if bytes_in(log) > _LOG_HEADER_BYTES]


def bytes_in(log: Path) -> int:
    """How long a log is; 0 once it is gone, which may be at any moment."""
    try:
        return log.stat().st_size if log.is_file() else 0
    except FileNotFoundError:
        return 0


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


@contextmanager
def _private(path: Path, found: list[Path]) -> Iterator[sqlite3.Connection]:
    with tempfile.TemporaryDirectory(prefix="evprof-reading-", ignore_cleanup_errors=True) as folder:
        copy = Path(folder) / "session"
        # The file before its log: frames that arrive meanwhile only add to it.
        shutil.copyfile(path, copy)
        for log in found:
            shutil.copyfile(log, _beside(copy, log.name[len(path.name) :]))
        with closing(_connect(copy.as_uri())) as connection:
            # Folds the log in and leaves one file without any.
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if os.name == "posix":
                copy.unlink()  # a reader that is killed leaves nothing
            yield connection


def read_text(content: bytes) -> str:
    """Text of a column, also where it is damaged: its checksum finds that."""
    return content.decode("utf-8", "surrogateescape")


def _connect(address: str) -> sqlite3.Connection:
    connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
    connection.text_factory = read_text
    for safety in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
        connection.execute(f"PRAGMA {safety}")
    return connection


_HEADER_BYTES = 100
_PAGE_SIZE_AT, _PAGES_AT = 16, 28
_USER_VERSION_AT = 60


def is_session(path: Path) -> bool:
    try:
        header = _read_header(path)
    except UserError:
        return False
    return _has_session_header(header)


def check_header(path: Path) -> None:
    """Raises UserError unless `path` is a session this program can read."""
    header = _read_header(path)
    if not _has_session_header(header):
        raise UserError(f"{path} is no evprof session; choose a file that evprof wrote, or another name to write to.")
    found = _number(header, _USER_VERSION_AT)
    if found > FORMAT:
        raise UserError(
            f"{path} was written by a newer evprof (format {found}, this one reads up to {FORMAT}); update evprof."
        )
    if found < 1:
        raise UserError(f"{path} has the impossible format number {found}; it is damaged, use a copy of it.")


def is_cut(path: Path) -> bool:
    """Whether a file is shorter than it says of itself; only a file that nobody writes can be told so."""
    header = _read_header(path)
    pages, size = _number(header, _PAGES_AT), struct.unpack_from(">H", header, _PAGE_SIZE_AT)[0]
    return path.stat().st_size < pages * (65_536 if size == 1 else int(size))


def _read_header(path: Path) -> bytes:
    try:
        # Asked first: opening a named pipe would wait for ever.
        if not stat.S_ISREG(path.stat().st_mode):
            raise UserError(f"{path} is not a file; choose a session file.")
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; check the name.") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UserError(f"{path} cannot be read: {reason}; check its permissions.") from error
    if len(header) < _HEADER_BYTES:
        raise UserError(f"{path} is no evprof session: it ends after {len(header):,} bytes; choose another file.")
    return header


def _has_session_header(header: bytes) -> bool:
    return header.startswith(SQLITE_MAGIC) and _number(header, APPLICATION_ID_AT) == APPLICATION_ID


def _number(header: bytes, place: int) -> int:
    return int(struct.unpack_from(">i", header, place)[0]) if len(header) >= place + 4 else -1
