"""Checks that a path can be read at all, with one sentence for each way it cannot."""

from __future__ import annotations

from pathlib import Path

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
        raise UserError(f"{path}: the file is empty; copy or record it again.")
    return found


def reason(error: BaseException) -> str:
    """What went wrong in the operating system's or library's own words, on one line without the path."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())[:160]
