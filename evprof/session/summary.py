"""What a session holds, in a few words, without reading it: how many runs, of which models, in which modes.

It looks at the newest runs' facts alone, and neither at measurements nor at checksums: it tells, and figures nothing.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.run_info import RunInfo
from evprof.session.checksums import DamageError
from evprof.session.header import check_header
from evprof.session.opening import logs, opened
from evprof.session.validation import run_info_from

MOST_LOOKED_AT = 40
"""Runs, the newest first, whose models, modes and samples are told."""

_LONGEST_INFO = 1 << 18


@dataclass(frozen=True)
class SessionSummary:
    """`models`, `modes` (their keys) and `samples` are those of the newest runs, each once, the newest first."""

    run_count: int
    models: tuple[str, ...]
    modes: tuple[str, ...]
    samples: tuple[str, ...]


def read_summary(path: Path) -> SessionSummary | None:
    """A summary of a session file; None of one that cannot be read, or that is being written."""
    try:
        check_header(path)
        if logs(path):
            return None
        with opened(path) as connection:
            count = int(connection.execute("SELECT count(*) FROM runs").fetchone()[0])
            infos = list(_newest(connection))
    except (sqlite3.Error, OSError, ValueError, TypeError, RecursionError, UserError, DamageError):
        return None
    kept = [info for info in infos if not info.is_deleted]
    return SessionSummary(
        count - (len(infos) - len(kept)),
        tuple(dict.fromkeys(model.name for info in kept for model in info.models.values() if model.name)),
        tuple(dict.fromkeys(info.mode for info in kept)),
        tuple(dict.fromkeys(info.sample.name for info in kept if info.sample.name)),
    )


def _newest(connection: sqlite3.Connection) -> Iterator[RunInfo]:
    found = connection.execute(
        "SELECT info FROM runs WHERE typeof(info) = 'text' AND length(info) <= ? ORDER BY run_id DESC LIMIT ?",
        (_LONGEST_INFO, MOST_LOOKED_AT),
    )
    for (text,) in found:
        info = run_info_from(json.loads(text))
        if info is not None:
            yield info
