"""Pictures of a recording or video at any moment, made by a thread of its own and fetched when they are wanted.

The window leaves word of the moment it wants and later takes what is ready; only the latest wish counts. It knows no
widget: pictures are arrays.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from evprof.core.errors import UserError

if TYPE_CHECKING:
    from evprof.core.events import EventArray
    from evprof.loaders.events.frames import EventFrames
    from evprof.loaders.pictures.render import Picture

LONGEST_EDGE = 640
"""Players are small: larger video frames are scaled down by the decoder."""


class PictureSource(Protocol):
    """An open input. Used by one thread only."""

    @property
    def duration_us(self) -> int:
        """Its length."""

    def picture_at(self, position_us: int) -> Picture:
        """uint8 [H, W, 3] RGB at a moment since its first event or frame. Raises UserError."""

    def close(self) -> None:
        """Lets go of the file."""


class EventPictures:
    """Events of the last moment before a position, drawn as the model's frames are."""

    def __init__(self, events: EventArray) -> None:
        from evprof.loaders.pictures.render import EventCanvas

        self._origin_us = events.t_min_us or 0
        self._canvas = EventCanvas(events)
        self.duration_us = events.duration_us or 0
        self.window_us = min(50_000, max(5_000, self.duration_us // 20))

    def picture_at(self, position_us: int) -> Picture:
        """Events of the `window_us` that end at the position; at the very start, of the first `window_us`."""
        stop = min(max(position_us, self.window_us), self.duration_us) + self._origin_us
        return self._canvas.render(stop - self.window_us, stop + 1)

    def close(self) -> None:
        """Nothing is held open."""


class FolderPictures:
    """A folder of event frames: no times are known, so they share 100 ms each."""

    FRAME_US = 100_000

    def __init__(self, frames: EventFrames) -> None:
        self._frames = frames.frames
        self.duration_us = self.FRAME_US * len(self._frames)

    def picture_at(self, position_us: int) -> Picture:
        """The frame whose turn it is."""
        return self._frames[min(position_us // self.FRAME_US, len(self._frames) - 1)]

    def close(self) -> None:
        """Nothing is held open."""


class VideoPictures:
    """Frames of a video, decoded on the way or after a seek, whichever is shorter."""

    def __init__(self, path: str) -> None:
        from evprof.loaders.videos.player import VideoPlayer

        self._player = VideoPlayer(path, longest_edge=LONGEST_EDGE)
        try:
            self.duration_us = self._player.duration_us
        except UserError:
            self._player.close()
            raise

    def picture_at(self, position_us: int) -> Picture:
        """The frame on show at the position."""
        return self._player.frame_at(position_us).picture

    def close(self) -> None:
        """Lets go of the file."""
        self._player.close()


def event_pictures(path: str) -> PictureSource:
    """Opens an event recording or a folder of event frames. Raises UserError."""
    from evprof.core.events import EventArray
    from evprof.loaders.events.opening import open_events

    source = open_events(path)
    return EventPictures(source) if isinstance(source, EventArray) else FolderPictures(source)


def video_pictures(path: str) -> PictureSource:
    """Opens a video. Raises UserError."""
    return VideoPictures(path)


@dataclass(frozen=True)
class FeedState:
    """What is ready. `sentence` says why there is no picture; `serial` grows with every change."""

    serial: int = 0
    picture: Picture | None = None
    position_us: int = 0
    duration_us: int | None = None
    sentence: str = ""


class PictureFeed:
    """One input's pictures. `want` and `state` return at once; the thread starts with the first wish."""

    def __init__(self, path: str, open_source: Callable[[str], PictureSource]) -> None:
        self.path = path
        self._open_source = open_source
        self._wish = threading.Condition()
        self._wanted_us: int | None = None
        self._is_closed = False
        self._is_paused = False
        self._state = FeedState()
        self._thread: threading.Thread | None = None

    @property
    def state(self) -> FeedState:
        """What is ready now."""
        return self._state

    def want(self, position_us: int) -> None:
        """Asks for the picture of a moment; an older wish that waits is forgotten."""
        with self._wish:
            self._wanted_us = position_us
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="evprof-pictures", daemon=True)
                self._thread.start()
            self._wish.notify()

    def set_paused(self, is_paused: bool) -> None:
        """While paused nothing is opened or decoded; the latest wish is kept."""
        with self._wish:
            self._is_paused = is_paused
            self._wish.notify()

    def close(self) -> None:
        """Ends the thread as soon as the picture in hand is done; does not wait."""
        with self._wish:
            self._is_closed = True
            self._wish.notify()

    def _next_wish(self) -> int | None:
        """The moment wanted next; None when the feed is closed."""
        with self._wish:
            self._wish.wait_for(lambda: self._is_closed or (self._wanted_us is not None and not self._is_paused))
            wanted, self._wanted_us = self._wanted_us, None
            return None if self._is_closed else wanted

    def _work(self) -> None:
        wanted = self._next_wish()
        if wanted is None:
            return
        try:
            source = self._open_source(self.path)
        except UserError as error:
            self._state = FeedState(self._state.serial + 1, sentence=error.sentence)
            return
        try:
            while wanted is not None:
                picture = source.picture_at(wanted)
                self._state = FeedState(self._state.serial + 1, picture, wanted, source.duration_us)
                wanted = self._next_wish()
        except UserError as error:
            self._state = FeedState(self._state.serial + 1, None, 0, source.duration_us, error.sentence)
        finally:
            source.close()
