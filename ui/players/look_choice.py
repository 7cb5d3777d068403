"""The look of events that the person chose, for every event player of the window; kept from one start to the next."""

from __future__ import annotations

from PySide6.QtCore import QObject, QSettings, Signal

from ui.players.event_look import EventLook

_KEY = "players/events"


class LookChoice(QObject):
    """One look for all.

    Signals:
        changed(): another look was chosen.
    """

    changed = Signal()

    def __init__(self, settings: QSettings | None = None, parent: QObject | None = None) -> None:
        """`settings` None: nothing is remembered."""
        super().__init__(parent)
        self._settings = settings
        self._look: EventLook | None = None

    @property
    def look(self) -> EventLook:
        """What was chosen; read when it is first asked for."""
        if self._look is None:
            kept = "" if self._settings is None else str(self._settings.value(_KEY, ""))
            self._look = EventLook.from_text(kept)
        return self._look

    def choose(self, look: EventLook) -> None:
        """Takes another look and remembers it."""
        if look == self.look:
            return
        self._look = look
        if self._settings is not None:
            self._settings.setValue(_KEY, look.text)
        self.changed.emit()
