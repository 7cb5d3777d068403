"""Files that appear whole, under a name that was free: nobody ever meets an empty or half-written one."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def hidden_name() -> str:
    """A name that nobody can have put a link under."""
    return f".evprof-{secrets.token_hex(8)}.part"


def is_part(path: Path) -> bool:
    """Whether `path` has such a name: a killed program's, where nobody writes it."""
    return path.name.startswith(".evprof-") and path.suffix == ".part"


def make_part(folder: Path) -> Path:
    """A new empty file in `folder`, with the rights that the user's other files get. Raises OSError."""
    path = folder / hidden_name()
    os.close(os.open(path, _NEW, 0o666))
    return path


def put_new(path: Path, content: bytes) -> None:
    """Makes the file `path` with all of `content`. Raises FileExistsError where something is already, OSError."""
    handle = _unnamed(path.parent)
    if handle is not None:
        with open(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            # Linked only when it is whole; a program that is killed before that leaves nothing.
            # `src_dir_fd` is of no account but that Python follows the link in /proc only when one is given.
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # no /proc
                os.link(f"/proc/self/fd/{handle}", path, src_dir_fd=handle)
                return
    part = make_part(path.parent)
    try:
        part.write_bytes(content)
        _link_or_rename(part, path)
    finally:
        part.unlink(missing_ok=True)


def _unnamed(folder: Path) -> int | None:
    """A file without a name, where the system has such."""
    kind = getattr(os, "O_TMPFILE", None)
    if kind is None:
        return None
    try:
        return os.open(folder, kind | os.O_WRONLY | os.O_CLOEXEC, 0o666)
    except OSError:
        return None


def _link_or_rename(part: Path, path: Path) -> None:
    try:
        os.link(part, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if path.exists():
            raise FileExistsError(f"{path} exists") from None
        os.rename(part, path)
