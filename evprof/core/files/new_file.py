"""Files that appear whole, under a name that was free: nobody ever meets an empty or half-written one."""

from __future__ import annotations

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
    part = make_part(path.parent)
    try:
        part.write_bytes(content)
        _link_or_rename(part, path)
    finally:
        part.unlink(missing_ok=True)


def _link_or_rename(part: Path, path: Path) -> None:
    try:
        os.link(part, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if path.exists():
            raise FileExistsError(f"{path} exists") from None
        os.rename(part, path)
