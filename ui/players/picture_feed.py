"""Pictures of a recording or video at any moment, made by a thread.

The window asks for a moment and later takes what is ready; only the latest request counts. It uses no Qt: pictures are
arrays.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from evprof.core.errors import UserError
from evprof.core.sample import Sample
from evprof.view.event_rates import Rates
from ui.players.event_look import EventArtist, EventLook

if TYPE_CHECKING:
    from evprof.loaders.pictures.frame_folder import EventFrames
    from evprof.loaders.pictures.render import Picture
    from ui.players.event_windows import EventWindows

LONGEST_EDGE = 640
"""Players are small: the decoder scales larger video frames down."""

FRAME_US = 100_000
"""Frames of a folder have no times; each is shown for so long."""


class PictureSource:
    """An open input. Used by one thread only; every call may raise UserError.

    `is_drawn`: a look decides how its pictures are drawn. `rates` are event rates as far as they are known.
    """

    is_drawn = False
    rates: Rates | None = None
    duration_us = 0

    def picture_at(self, position_us: int, look: EventLook | None = None) -> Picture:
        """uint8 [H, W, 3] RGB at a moment since the first event or frame."""
        raise NotImplementedError

    def look_on(self) -> bool:
        """Computes some more of the rates; False when there is nothing more."""
        return False

    def close(self) -> None:
        """Closes the file."""


@dataclass(frozen=True)
class PlayerInput:
    """One half of a sample. `offset_us` is when its first event or frame is shown on the sample's clock."""

    path: str
    times_path: str | None = None
    offset_us: int = 0
    rectify_path: str | None = None

    @property
    def files(self) -> tuple[str, str | None, str | None]:
        """What has to be opened; the offset does not matter for that."""
        return (self.path, self.times_path, self.rectify_path)

    @classmethod
    def of(cls, sample: Sample, what: str) -> Self | None:
        """The "events" or the "video" of a sample; None where it has none."""
        if what == "events":
            path = sample.events_path
            return None if path is None else cls(path, rectify_path=sample.rectify_path)
        if sample.video_path is None:
            return None
        return cls(sample.video_path, sample.video_times_path, sample.video_offset_us)


class EventPictures(PictureSource):
    """The events before a position, and their rates."""

    is_drawn = True

    def __init__(self, windows: EventWindows) -> None:
        from ui.players.event_windows import RateSurvey

        self._windows = windows
        self._artist = EventArtist(windows)
        self._survey = RateSurvey(windows)
        self.rates = self._survey.rates
        self.duration_us = windows.duration_us

    def picture_at(self, position_us: int, look: EventLook | None = None) -> Picture:
        return self._artist.picture_at(position_us, look or EventLook())

    def look_on(self) -> bool:
        has_more = self._survey.step()
        self.rates = self._survey.rates
        return has_more

    def close(self) -> None:
        self._windows.close()


class FolderPictures(PictureSource):
    def __init__(self, frames: EventFrames) -> None:
        self._frames = frames.frames
        self.duration_us = FRAME_US * len(self._frames)

    def picture_at(self, position_us: int, look: EventLook | None = None) -> Picture:
        return self._frames[min(position_us // FRAME_US, len(self._frames) - 1)]


class VideoPictures(PictureSource):
    def __init__(self, given: PlayerInput) -> None:
        from evprof.loaders.videos.opening import SeekableVideo

        self._player = SeekableVideo(given.path, longest_edge=LONGEST_EDGE, times_path=given.times_path)
        try:
            self.duration_us = self._player.duration_us
        except UserError:
            self._player.close()
            raise

    def picture_at(self, position_us: int, look: EventLook | None = None) -> Picture:
        return self._player.frame_at(position_us).picture

    def close(self) -> None:
        self._player.close()


def event_pictures(given: PlayerInput) -> PictureSource:
    """Opens an event recording or a folder of event frames. Raises UserError."""
    from evprof.loaders.pictures.frame_folder import is_frame_set, load_event_frames
    from ui.players.event_windows import open_windows

    if Path(given.path).is_dir() or is_frame_set(given.path):
        return FolderPictures(load_event_frames(given.path))
    return EventPictures(open_windows(given.path, given.rectify_path))


@dataclass(frozen=True)
class FeedState:
    """What is ready. `sentence` says why there is no picture; `serial` grows with every change."""

    serial: int = 0
    picture: Picture | None = None
    position_us: int = 0
    duration_us: int | None = None
    sentence: str = ""
    is_drawn: bool = False
    rates: Rates | None = None


class PictureFeed:
    """Pictures of one input. `want` and `state` return at once; the thread starts with the first request."""

    def __init__(self, given: PlayerInput, open_source: Callable[[PlayerInput], PictureSource]) -> None:
        self._given = given
        self._open_source = open_source
        self._changed = threading.Condition()
        self._wanted: tuple[int, EventLook | None] | None = None
        self._is_busy = self._is_closed = self._is_paused = self._is_over = False
        self._thread: threading.Thread | None = None
        self.state = FeedState()

    @property
    def is_busy(self) -> bool:
        """Whether a picture or more of the rates are still to come."""
        with self._changed:
            return self._is_busy

    def want(self, position_us: int, look: EventLook | None = None) -> None:
        """Asks for the picture of a moment since the input's beginning, in place of an earlier request."""
        with self._changed:
            if self._is_over:
                return
            self._wanted, self._is_busy = (position_us, look), True
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="evprof-pictures", daemon=True)
                self._thread.start()
            self._changed.notify()

    def set_paused(self, is_paused: bool) -> None:
        """While paused nothing is opened or decoded; the latest request is kept."""
        with self._changed:
            self._is_paused = is_paused
            self._changed.notify()

    def close(self) -> None:
        """Ends the thread after the present picture; does not wait."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _next(self) -> tuple[int, EventLook | None] | None:
        """The next request; None when the feed is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or (self._wanted is not None and not self._is_paused))
            wanted, self._wanted = self._wanted, None
            return None if self._is_closed else wanted

    def _is_idle(self) -> bool:
        with self._changed:
            return self._wanted is None and not self._is_paused and not self._is_closed

    def _rest(self) -> None:
        with self._changed:
            self._is_busy = self._wanted is not None

    def _fail(self, error: UserError, duration_us: int | None = None) -> None:
        with self._changed:
            self._is_over, self._is_busy = True, False
            self.state = FeedState(self.state.serial + 1, duration_us=duration_us, sentence=error.sentence)

    def _work(self) -> None:
        wanted = self._next()
        if wanted is None:
            return
        try:
            source = self._open_source(self._given)
        except UserError as error:
            self._fail(error)
            return
        try:
            while wanted is not None:
                position_us, look = wanted
                picture = source.picture_at(position_us, look)
                serial, facts = self.state.serial + 1, (source.is_drawn, source.rates)
                self.state = FeedState(serial, picture, position_us, source.duration_us, "", *facts)
                while self._is_idle() and source.look_on():
                    self.state = replace(self.state, serial=self.state.serial + 1, rates=source.rates)
                self._rest()
                wanted = self._next()
        except UserError as error:
            self._fail(error, source.duration_us)
        finally:
            source.close()
