"""Whether what is to be written can be, and what lies near a path that leads nowhere."""

from __future__ import annotations

import os
from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.suggestions import nearest

_MOST_LISTED = 1000
"""Neighbours of a path that is not there, among which the nearest is looked for."""


def check_file(path: Path, option: str) -> None:
    """Raises UserError unless a file can be written at `path`."""
    folder = path.absolute().parent
    if path.is_dir():
        raise UserError(f"{option}: '{path}' is a folder; name a file.")
    if not folder.is_dir():
        raise UserError(f"{option}: there is no folder '{folder}'; make it first.")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise UserError(f"{option}: '{path}' may not be written to; name a file in another folder.")


def check_folder(path: Path, option: str) -> None:
    """Raises UserError unless files can be made in the folder `path`, which may have to be made first."""
    place = path.absolute()
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        raise UserError(f"{option}: '{place}' is a file; name a folder.")
    if not os.access(place, os.W_OK):
        raise UserError(f"{option}: '{place}' may not be written to; name another folder.")


def nearest_path(path: Path) -> str:
    """`; did you mean PATH?` where something of nearly that name lies in the same folder; else ""."""
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry, _ in zip(entries, range(_MOST_LISTED), strict=False)]
    except (OSError, ValueError):
        return ""
    found = nearest(path.name, names)
    return f"; did you mean {path.parent / found}?" if found else ""
