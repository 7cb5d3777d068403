"""Which of several forms of the same data are read off a list, and how many of an entry's questions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

EventsFrom = Literal["auto", "npy", "image", "image_1f"]
VideoFrom = Literal["auto", "video", "mp4"]
Questions = Literal["first", "all"]

MAX_TURNS = 1000
"""Turns that are read of one entry."""


@dataclass(frozen=True)
class Choices:
    """Which of several forms of the same data are taken, and how many of an entry's questions."""

    questions: Questions = "first"
    events_from: EventsFrom = "auto"
    video_from: VideoFrom = "auto"
