"""The event player: the events of the last moment, drawn as the model's frames are."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from ui.models.picture_feed import event_pictures
from ui.models.play_clock import PlayClock
from ui.theme import ThemeHolder
from ui.views.frame_player import FramePlayer


class EventPlayer(FramePlayer):
    """Plays an event recording or a folder of event frames."""

    def __init__(self, themes: ThemeHolder, clock: PlayClock, parent: QWidget | None = None) -> None:
        super().__init__(themes, clock, event_pictures, "events", parent)
