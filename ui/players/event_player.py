"""The event player: the events of the last moment, drawn as the person chose."""

from __future__ import annotations

from PySide6.QtCore import QRectF
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QWidget

from ui.players.event_look import EventLook
from ui.players.frame_player import FramePlayer
from ui.players.look_button import LookButton
from ui.players.look_choice import LookChoice
from ui.players.picture_feed import event_pictures
from ui.players.play_clock import PlayClock
from ui.style.theme import ThemeHolder

_INSET = 4


class EventPlayer(FramePlayer):
    """Plays an event recording or a folder of event frames."""

    def __init__(
        self, themes: ThemeHolder, clock: PlayClock, choice: LookChoice | None = None, parent: QWidget | None = None
    ) -> None:
        super().__init__(themes, clock, event_pictures, "events", parent)
        self._choice = choice if choice is not None else LookChoice(parent=self)
        self.look_button = LookButton(themes, self._choice, self)
        self.look_button.hide()
        self._choice.changed.connect(self.ask_again)
        themes.changed.connect(self.ask_again)

    @property
    def look(self) -> EventLook:
        """What was chosen, in the colours of the theme unless others were."""
        return self._choice.look.in_theme(self._themes.theme.is_dark)

    def picture_placed(self, place: QRectF | None) -> None:
        """The button stands in the picture's upper right corner, where there is a recording that can look otherwise."""
        is_shown = place is not None and self.is_drawn
        self.look_button.setVisible(is_shown)
        if place is not None and is_shown:
            self.look_button.move(round(place.right()) - self.look_button.width() - _INSET, round(place.top()) + _INSET)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.picture_placed(self.picture_place())
