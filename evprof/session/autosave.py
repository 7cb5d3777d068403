"""Unnamed sessions in the user's data folder: their names, which of them a program left unclosed, and their size.

A program that ends well closes its session and removes its lock. A lock without a holder belongs to a program that was
killed: its session is kept until the user decides. Closed sessions are removed when they are old or too large.
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
from evprof.core.units import bytes_text
from evprof.session.presence import hold, is_written, lock_path
from evprof.session.store import SessionFile
from evprof.session.tables import SUFFIX

MOST_BYTES = 5 << 30
"""Of all autosaved sessions together, those of the last days apart."""

OLDEST_DAYS, SAFE_DAYS = 90, 7
"""Closed sessions older than the first are cleared away; none younger than the second is."""

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
    """One of them: `nbytes` with its logs, `changed_s` seconds since 1970. `is_abandoned`: its program was killed."""

    path: Path
    nbytes: int
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
    parts = [path, *_logs_of(path)]
    changed_s = max(part.stat().st_mtime for part in parts)
    is_abandoned = lock_path(path).exists() or any(log.stat().st_size for log in parts[1:])
    return Autosaved(path, sum(part.stat().st_size for part in parts), changed_s, is_abandoned)


def _logs_of(path: Path) -> list[Path]:
    return [log for ending in _LOGS if (log := path.with_name(path.name + ending)).is_file()]


def abandoned() -> list[Autosaved]:
    return [one for one in autosaved() if one.is_abandoned]


def take_up(path: Path) -> None:
    """Closes an abandoned session, so that it is one like any other. Raises UserError when it cannot be written."""
    try:
        SessionFile(path).close()
    except sqlite3.Error as error:
        raise UserError(f"{path} cannot be closed: {error}; free some space on its disk.") from error


def discard(path: Path) -> None:
    """Removes an autosaved session for good. Raises UserError when somebody writes it or it cannot be removed."""
    lock = hold(path)
    try:
        for part in (path, *_logs_of(path)):
            part.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"{path} cannot be removed: {error.strerror or error}; check its folder.") from error
    finally:
        lock.release()


def clear_away(now_s: float | None = None) -> list[Autosaved]:
    """Removes closed sessions that are too old, and the oldest of too many; says which. Abandoned ones stay.

    `now_s`: seconds since 1970.
    """
    now_s = time.time() if now_s is None else now_s
    known = autosaved()
    left, removed = sum(one.nbytes for one in known), []
    for one in reversed(known):
        days = (now_s - one.changed_s) / 86_400
        if one.is_abandoned or days < SAFE_DAYS or not (days > OLDEST_DAYS or left > MOST_BYTES):
            continue
        with contextlib.suppress(UserError):
            discard(one.path)
            removed.append(one)
            left -= one.nbytes
    return removed


def told(found: list[Autosaved]) -> str:
    if not found:
        return ""
    newest = time.strftime("%Y-%m-%d %H:%M", time.localtime(found[0].changed_s))
    if len(found) == 1:
        return f"A program ended without closing its session. What it recorded until {newest} is kept: {found[0].path}"
    many = f"{len(found)} programs ended without closing their sessions, the last at {newest}."
    return f"{many} They are kept in {found[0].path.parent}"


def told_removal(removed: list[Autosaved]) -> str:
    if not removed:
        return ""
    what = "1 autosaved session" if len(removed) == 1 else f"{len(removed)} autosaved sessions"
    return (
        f"Removed {what} ({bytes_text(sum(one.nbytes for one in removed))}): kept are those of {OLDEST_DAYS} days, "
        f"up to {bytes_text(MOST_BYTES)} in all."
    )
