"""The switch that links this window with the user's others; off until somebody turns it on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtGui import QAction

from ui.timeline.timeline_view import TimelineView

if TYPE_CHECKING:
    from ui.timeline.link.window_link import WindowLink


class Linking:
    """Turns the link on and off. Qt's network part is loaded only for that."""

    def __init__(self, timeline: TimelineView, action: QAction, post: Callable[[str, str], None]) -> None:
        self._timeline = timeline
        self._action = action
        self._post = post
        self.link: WindowLink | None = None
        action.setCheckable(True)

    def toggle(self) -> None:
        """Links, or ends the link."""
        if self.link is not None:
            self.close()
        else:
            from ui.timeline.link.window_link import WindowLink

            self.link = WindowLink(self._timeline)
            self._post("Pointer and zoom of the timeline are shared with your other windows that are linked.", "info")
        self._action.setChecked(self.link is not None)

    def close(self) -> None:
        """Ends the link, where there is one; before the window goes."""
        if self.link is not None:
            self.link.close()
            self.link = None
