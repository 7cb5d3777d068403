"""Facts added to a session that nobody records at the moment: JSON under names, of whose content it knows nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evprof.session.store import Commit, changed_session


def add_facts(path: Path, facts: Mapping[str, Any]) -> None:
    """Adds to what the session at `path` holds, which is made if need be: entries of a dictionary replace those of
    their names, entries of a list follow those before. Raises UserError when the session cannot be written.
    """
    with changed_session(path) as file:
        file.commit({}, Commit(facts={name: _added(file.fact(name), value) for name, value in facts.items()}))


def _added(before: Any, new: Any) -> Any:
    if isinstance(before, dict) and isinstance(new, dict):
        return before | new
    if isinstance(before, list) and isinstance(new, list):
        return before + new
    return new
