"""Comparisons saved in a session under names: JSON in its facts, of whose content this module knows nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evprof.core.errors import UserError
from evprof.session.header import check_header
from evprof.session.store import Commit, changed_session

VIEWS = "views"
"""The fact that holds them."""

LONGEST_NAME, MOST_VIEWS = 200, 200


def saved_views(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Name -> view, of a session's facts; what is no such table is none."""
    found = facts.get(VIEWS)
    return dict(found) if isinstance(found, dict) else {}


def save_view(path: Path, name: str, view: Mapping[str, Any]) -> None:
    """Saves `view` in the session at `path`, in place of the one of that name.

    The one thing that is written to a session which nobody records. Raises UserError for an impossible name, and when
    the session cannot be written or is being recorded.
    """
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise UserError(f"A view's name has 1 to {LONGEST_NAME} printable characters; choose another.")
    check_header(path)
    with changed_session(path) as file:
        views = saved_views({VIEWS: file.fact(VIEWS)}) | {name: dict(view)}
        if len(views) > MOST_VIEWS:
            raise UserError(f"{path} holds {MOST_VIEWS} views already; save this one under the name of another.")
        file.commit({}, Commit(facts={VIEWS: views}))
