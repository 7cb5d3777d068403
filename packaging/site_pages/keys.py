"""Keys and gestures of the window, from the list that its key help shows."""

from __future__ import annotations

from collections.abc import Iterable

from site_pages.markdown import plain, table
from ui.window.actions import ENTRIES, MOUSE, TIMELINE, ActionEntry

_INTRODUCTION = """# Keys and mouse

`?` in the window shows this list. Everything in the menu can be done with the keyboard; Tab moves between views.
Views with keys of their own (the track below the players, the comparison, the acceptance clinic) name them in
[the window](../window.md).
"""


def page() -> str:
    """The page."""
    keyed = [entry for entry in ENTRIES if entry is not None and entry.keys]
    groups = {
        "Menu": _rows(entry for entry in keyed if entry.below != TIMELINE),
        TIMELINE: _rows(entry for entry in keyed if entry.below == TIMELINE),
        "Mouse": [(plain(gesture), plain(meaning)) for gesture, meaning in MOUSE],
    }
    parts = [f"## {head}\n\n{table(('', ''), rows)}" for head, rows in groups.items()]
    return "\n".join((_INTRODUCTION, *parts))


def _rows(entries: Iterable[ActionEntry]) -> list[tuple[str, str]]:
    return [(_keys(entry.keys), plain(entry.text)) for entry in entries]


def _keys(keys: str) -> str:
    """Keys as a keyboard shows them: `Ctrl+K`, or several with a gap between."""
    return " ".join(f"<kbd>{plain(key)}</kbd>" for key in keys.split())
