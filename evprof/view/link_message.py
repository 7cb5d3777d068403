"""What linked windows tell each other: where the pointer is and what is in view. A stranger's message is none."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

MOST_BYTES = 256
"""A message is shorter, its end of line included."""

_MOST_NS = 10**15
"""Eleven days: no run takes longer."""

VERSION = 1


class LinkMessage(NamedTuple):
    """Moments on the time axis in ns; None: the pointer is elsewhere, everything is in view."""

    cursor_ns: int | None
    view_ns: tuple[int, int] | None

    def encoded(self) -> bytes:
        """One line."""
        view = None if self.view_ns is None else list(self.view_ns)
        return json.dumps({"v": VERSION, "cursor": self.cursor_ns, "view": view}).encode() + b"\n"


def link_message(line: bytes) -> LinkMessage | None:
    """A message from its line; None for anything that is none."""
    if len(line) > MOST_BYTES:
        return None
    try:
        found = json.loads(line)
    except ValueError:
        return None
    if not isinstance(found, dict) or set(found) != {"v", "cursor", "view"} or found["v"] != VERSION:
        return None
    cursor, view = found["cursor"], found["view"]
    if cursor is not None and not _is_moment(cursor):
        return None
    if view is None:
        return LinkMessage(cursor, None)
    is_range = isinstance(view, list) and len(view) == 2 and all(map(_is_moment, view)) and view[0] < view[1]
    return LinkMessage(cursor, (view[0], view[1])) if is_range else None


def _is_moment(value: Any) -> bool:
    return type(value) is int and abs(value) <= _MOST_NS
