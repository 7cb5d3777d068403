"""Whether a file is one of our sessions, from its first hundred bytes and before SQLite looks at it."""

from __future__ import annotations

import stat
import struct
from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.files.sqlite import APPLICATION_ID_AT, SQLITE_MAGIC
from evprof.session.schema import APPLICATION_ID, FORMAT

_HEADER_BYTES = 100
_PAGE_SIZE_AT, _PAGES_AT = 16, 28
_USER_VERSION_AT = 60


def is_session(path: Path) -> bool:
    """Whether `path` is a session file, of whatever format."""
    try:
        header = _read_header(path)
    except UserError:
        return False
    return _is_ours(header)


def check_header(path: Path) -> None:
    """Raises UserError unless `path` is a session this program can read."""
    header = _read_header(path)
    if not _is_ours(header):
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


def _is_ours(header: bytes) -> bool:
    return header.startswith(SQLITE_MAGIC) and _number(header, APPLICATION_ID_AT) == APPLICATION_ID


def _number(header: bytes, place: int) -> int:
    return int(struct.unpack_from(">i", header, place)[0]) if len(header) >= place + 4 else -1
