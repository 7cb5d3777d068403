"""Checks that a path can be read at all, with one sentence for each way it cannot."""

from __future__ import annotations

import os
import stat
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from evprof.core.errors import UserError


def readable_file(path: str | Path) -> Path:
    """The path of an existing, non-empty ordinary file. Raises UserError otherwise."""
    found = Path(path)
    try:
        if not found.exists():
            raise UserError(f"{path}: no such file; check the path.")
        if found.is_dir():
            raise UserError(f"{path}: is a folder, where a file is expected; name the file in it.")
        if not found.is_file():
            raise UserError(f"{path}: is not an ordinary file; copy it to one first.")
        size = found.stat().st_size
    except (OSError, ValueError) as error:
        raise UserError(f"{path!s}: cannot be reached ({reason(error)}); check the path and its permissions.") from None
    if size == 0:
        raise UserError(f"{path}: the file is empty.")
    return found


def opened_file(path: str | Path) -> BinaryIO:
    """A file opened for reading its bytes. Raises UserError for pipes, devices and folders, at once; OSError otherwise.

    A pipe or a device under a file's name would keep its reader waiting, or never end.
    """
    return open(path, "rb", opener=_ordinary)


def raw_file(path: str | Path) -> FileIO:
    """The same without a buffer, for who reads large pieces at places."""
    return FileIO(path, "rb", opener=_ordinary)


def _ordinary(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UserError(f"{path}: is not an ordinary file; copy it to one first.")
    return descriptor


def first_bytes(path: str | Path, count: int) -> bytes:
    """Up to `count` bytes from the start of an existing, non-empty file. Raises UserError."""
    found = readable_file(path)
    try:
        with opened_file(found) as file:
            return file.read(count)
    except OSError as error:
        raise unreadable(path, error) from None


def unreadable(path: str | Path, error: BaseException) -> UserError:
    """For a file that is there and gives no bytes."""
    return UserError(f"{path}: cannot be read ({reason(error)}); check its permissions and the disk.")


def reason(error: BaseException) -> str:
    """What went wrong in the operating system's or library's own words, on one line without the path."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())[:160]
