"""Facts added to a session that nobody records at the moment: JSON under names, of whose content it knows nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evprof.core.errors import UserError
from evprof.session.store import Commit, SessionFile


def add_facts(path: Path, facts: Mapping[str, Any]) -> None:
    """Adds to what the session at `path` holds, which is made if need be: entries of a dictionary replace those of
    their names, entries of a list follow those before. Raises UserError when the session cannot be written.
    """
    file = SessionFile(path)
    try:
        try:
            file.commit({}, Commit(facts={name: _added(file.fact(name), value) for name, value in facts.items()}))
        finally:
            file.close()
    except sqlite3.Error as error:
        raise UserError(f"{path} cannot be written: {error}; is there room on the disk?") from error


def _added(before: Any, new: Any) -> Any:
    if isinstance(before, dict) and isinstance(new, dict):
        return before | new
    if isinstance(before, list) and isinstance(new, list):
        return before + new
    return new
