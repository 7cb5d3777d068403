"""Unnamed sessions in the user's data folder: their names, and which of them a program left unclosed.

A program that ends well closes its session and removes its lock. A lock without a holder belongs to a program that was
killed: its session is kept until the user decides. Closed sessions are removed when they are old.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.files.user_folders import data_folder
from evprof.core.units import count_text
from evprof.session.presence import hold, is_written, lock_path
from evprof.session.store import SessionFile
from evprof.session.tables import SUFFIX

OLDEST_DAYS = 90
"""Closed sessions older than that are cleared away."""

_LOGS = ("-wal", "-shm", "-journal")


def autosave_folder() -> Path:
    """The folder of unnamed sessions in the user's data folder; it may not exist yet."""
    return data_folder() / "sessions"


def autosave_path() -> Path:
    """A new name in that folder: the moment in UTC and our process id."""
    stem = f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S}-{os.getpid()}"
    endings = itertools.chain([""], (f"-{number}" for number in itertools.count(2)))
    return next(path for ending in endings if not (path := autosave_folder() / f"{stem}{ending}{SUFFIX}").exists())


@dataclass(frozen=True)
class Autosaved:
    """One of them. `changed_s`: seconds since 1970. `is_abandoned`: its program was killed."""

    path: Path
    changed_s: float
    is_abandoned: bool


def autosaved() -> list[Autosaved]:
    """All that nobody writes at present, the newest first. Never raises: what cannot be looked at is left out."""
    found = []
    with contextlib.suppress(OSError):
        for path in autosave_folder().glob(f"*{SUFFIX}"):
            with contextlib.suppress(OSError):
                if not is_written(path):
                    found.append(_looked_at(path))
    return sorted(found, key=lambda one: one.changed_s, reverse=True)


def _looked_at(path: Path) -> Autosaved:
    logs = [log for ending in _LOGS if (log := path.with_name(path.name + ending)).is_file()]
    changed_s = max(part.stat().st_mtime for part in (path, *logs))
    return Autosaved(path, changed_s, lock_path(path).exists() or any(log.stat().st_size for log in logs))


def abandoned() -> list[Autosaved]:
    return [one for one in autosaved() if one.is_abandoned]


def take_up(path: Path) -> None:
    """Closes a session that a killed program left, so that it is one like any other; leaves every other file alone.

    Raises UserError when it cannot be written.
    """
    if path.parent != autosave_folder() or not path.exists() or is_written(path) or not _looked_at(path).is_abandoned:
        return
    try:
        SessionFile(path).close()
    except sqlite3.Error as error:
        raise UserError(f"{path} cannot be closed: {error}; free some space on its disk.") from error


def clear_away() -> list[Autosaved]:
    """Removes closed sessions that are too old, and lists them. Abandoned ones stay."""
    oldest_s = time.time() - OLDEST_DAYS * 86_400
    removed = []
    for one in autosaved():
        if not one.is_abandoned and one.changed_s < oldest_s:
            with contextlib.suppress(UserError, OSError):
                lock = hold(one.path)
                try:
                    one.path.unlink()
                    removed.append(one)
                finally:
                    lock.release()
    return removed


def told(found: list[Autosaved]) -> str:
    if not found:
        return ""
    newest = time.strftime("%Y-%m-%d %H:%M", time.localtime(found[0].changed_s))
    if len(found) == 1:
        return f"evprof was closed unexpectedly. The session until {newest} was saved: {found[0].path}"
    many = f"evprof was closed unexpectedly {len(found)} times, the last time at {newest}."
    return f"{many} The sessions were saved in {found[0].path.parent}"


def told_removal(removed: list[Autosaved]) -> str:
    what = count_text(len(removed), "autosaved session")
    return f"Removed {what} older than {OLDEST_DAYS} days." if removed else ""
