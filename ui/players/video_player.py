"""The video player: the frame on show at the shared position."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from ui.players.frame_player import FramePlayer
from ui.players.picture_feed import video_pictures
from ui.players.play_clock import PlayClock
from ui.style.theme import ThemeHolder


class VideoPlayer(FramePlayer):
    """Plays a video in step with the events."""

    def __init__(self, themes: ThemeHolder, clock: PlayClock, parent: QWidget | None = None) -> None:
        super().__init__(themes, clock, video_pictures, "video", parent)
