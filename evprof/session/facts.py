"""Facts added to a session that nobody records at the moment: JSON under names, of whose content it knows nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evprof.session.store import Commit, changed_session

MERGED = "merged"
"""The fact that names the sessions that were merged into one, and keeps what could not stand for all."""

_DEEPEST = 20
"""Merges of merged sessions that are looked into."""


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


def told_facts(facts: Mapping[str, Any], key: str, depth: int = _DEEPEST) -> list[Any]:
    """A fact of a session, and the same of the sessions that were merged into it, in order."""
    found = [facts[key]] if key in facts else []
    return found + (_of_sources(facts.get(MERGED), key, depth) if depth else [])


def _of_sources(sources: Any, key: str, depth: int) -> list[Any]:
    found: list[Any] = []
    for source in sources if isinstance(sources, list) else []:
        if isinstance(source, dict):
            own = source.get("facts")
            found += told_facts(own, key, 0) if isinstance(own, dict) else []
            found += _of_sources(source.get("sources"), key, depth - 1) if depth else []
    return found
