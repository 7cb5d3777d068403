"""Comparisons that are kept in the open session, among its facts under "views"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ui.state.window_session import WindowSession

VIEWS = "views"


class SavedViews:
    """Saved choices of columns by name; see `ui.comparison.book` for what one holds."""

    def __init__(self, session: WindowSession) -> None:
        self._session = session

    @property
    def by_name(self) -> dict[str, dict[str, Any]]:
        """All of them, as far as the file holds what we write."""
        views = self._session.facts.get(VIEWS)
        if not isinstance(views, dict):
            return {}
        return {str(name): view for name, view in views.items() if isinstance(view, dict)}

    def save(self, name: str, view: dict[str, Any]) -> None:
        """Keeps one, in place of another of that name."""
        self._session.note(VIEWS, {**self.by_name, name: view})

    def remove(self, name: str) -> None:
        """Forgets one."""
        self._session.note(VIEWS, {other: view for other, view in self.by_name.items() if other != name})
