"""Pictures of a recording or video at any moment, made by a thread of its own and fetched when they are wanted.

The window leaves word of the moment it wants and later takes what is ready; only the latest wish counts. It knows no
widget: pictures are arrays.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

from evprof.core.errors import UserError
from evprof.core.sample import Sample
from evprof.view.event_rates import Rates, Region
from ui.players.event_look import EventArtist, EventLook

if TYPE_CHECKING:
    from evprof.loaders.pictures.frame_folder import EventFrames
    from evprof.loaders.pictures.render import Picture
    from ui.players.event_windows import EventWindows
    from ui.players.rate_survey import RateSurvey

LONGEST_EDGE = 640
"""Players are small: larger video frames are scaled down by the decoder."""


class PictureSource(Protocol):
    """An open input. Used by one thread only. `is_drawn`: its pictures are drawn here, as a look says.

    `note` is what there is to say of the last picture, `rates` how many events there are from moment to moment, as far
    as is known.
    """

    is_drawn: bool

    @property
    def note(self) -> str:
        """See above."""

    @property
    def rates(self) -> Rates | None:
        """See above."""

    @property
    def duration_us(self) -> int:
        """Its length, as far as it is known yet."""

    @property
    def is_length_known(self) -> bool:
        """Whether `prepare` has nothing more to find out about the length."""

    def picture_at(self, position_us: int, look: EventLook | None = None) -> Picture:
        """uint8 [H, W, 3] RGB at a moment since its first event or frame; videos have no look. Raises UserError."""

    def prepare(self, position_us: int) -> None:
        """Reads ahead of a moment; asked for while no picture is. Raises UserError."""

    def look_on(self) -> bool:
        """Finds out a little more about the rates; False when there is nothing more. Raises UserError."""

    def close(self) -> None:
        """Lets go of the file."""


class WithoutRates:
    """What sources have in common that hold no events."""

    note = ""
    rates: Rates | None = None

    def look_on(self) -> bool:
        """Nothing to find out."""
        return False


@dataclass(frozen=True)
class PlayerInput:
    """One half of a sample. `offset_us` is when its first event or frame is shown on the sample's clock."""

    path: str
    times_path: str | None = None
    offset_us: int = 0
    rectify_path: str | None = None

    @property
    def files(self) -> tuple[str, str | None, str | None]:
        """What has to be opened; where it lies on the clock does not matter for that."""
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


class EventPictures:
    """Events of the last moment before a position, held or read in blocks."""

    is_drawn = True

    def __init__(self, windows: EventWindows) -> None:
        self._windows = windows
        self._artist = EventArtist(windows)
        self._survey: RateSurvey | None = None
        self._region: Region | None = None

    @property
    def duration_us(self) -> int:
        """From the earliest event to the latest."""
        return self._windows.duration_us

    @property
    def is_length_known(self) -> bool:
        """False of long recordings that do not say."""
        return self._windows.is_length_known

    def picture_at(self, position_us: int, look: EventLook | None = None) -> Picture:
        """What the look says of the events that end at the position."""
        look = look or EventLook()
        self._region = look.region
        return self._artist.picture_at(position_us, look)

    @property
    def note(self) -> str:
        """Of the last picture."""
        return self._artist.note

    @property
    def rates(self) -> Rates | None:
        """Of the region that the last picture was asked for with."""
        survey = self._meant_survey()
        return None if survey is None else survey.rates

    def look_on(self) -> bool:
        """Some more bins."""
        survey = self._meant_survey()
        if survey is None or survey.is_over:
            return False
        survey.step()
        return True

    def _meant_survey(self) -> RateSurvey | None:
        """The survey of the region; None while nobody knows how long the recording is."""
        from ui.players.rate_survey import RateSurvey

        if not self._windows.is_length_known:
            return None
        if self._survey is None or self._survey.region != self._region:
            self._survey = RateSurvey(self._windows, self._region)
        return self._survey

    def prepare(self, position_us: int) -> None:
        """The block that playing comes to next."""
        self._windows.prepare(position_us)

    def close(self) -> None:
        """Lets go of the recording."""
        self._windows.close()


class FolderPictures(WithoutRates):
    """A folder of event frames: no times are known, so they share 100 ms each."""

    FRAME_US = 100_000
    is_drawn = False
    is_length_known = True

    def __init__(self, frames: EventFrames) -> None:
        self._frames = frames.frames
        self.duration_us = self.FRAME_US * len(self._frames)

    def picture_at(self, position_us: int, look: EventLook | None = None) -> Picture:
        """The frame whose turn it is; somebody else drew it."""
        return self._frames[min(position_us // self.FRAME_US, len(self._frames) - 1)]

    def prepare(self, position_us: int) -> None:
        """All are there."""

    def close(self) -> None:
        """Nothing is held open."""


class VideoPictures(WithoutRates):
    """Frames of a video, decoded on the way or after a seek, whichever is shorter."""

    is_drawn = False
    is_length_known = True

    def __init__(self, given: PlayerInput) -> None:
        from evprof.loaders.videos.player import SeekableVideo

        self._player = SeekableVideo(given.path, longest_edge=LONGEST_EDGE, times_path=given.times_path)
        try:
            self.duration_us = self._player.duration_us
        except UserError:
            self._player.close()
            raise

    def picture_at(self, position_us: int, look: EventLook | None = None) -> Picture:
        """The frame on show at the position."""
        return self._player.frame_at(position_us).picture

    def prepare(self, position_us: int) -> None:
        """Frames of videos are decoded on the way."""

    def close(self) -> None:
        """Lets go of the file."""
        self._player.close()


def event_pictures(given: PlayerInput) -> PictureSource:
    """Opens an event recording or a folder of event frames. Raises UserError."""
    from evprof.loaders.pictures.frame_folder import is_frame_set, load_event_frames
    from ui.players.event_windows import open_windows

    if Path(given.path).is_dir() or is_frame_set(given.path):
        return FolderPictures(load_event_frames(given.path))
    return EventPictures(open_windows(given.path, given.rectify_path))


def video_pictures(given: PlayerInput) -> PictureSource:
    """Opens a video or a folder of pictures. Raises UserError."""
    return VideoPictures(given)


@dataclass(frozen=True)
class FeedState:
    """What is ready. `sentence` says why there is no picture; `serial` grows with every change."""

    serial: int = 0
    picture: Picture | None = None
    position_us: int = 0
    duration_us: int | None = None
    sentence: str = ""
    is_drawn: bool = False
    note: str = ""
    rates: Rates | None = None


class PictureFeed:
    """One input's pictures. `want` and `state` return at once; the thread starts with the first wish."""

    def __init__(self, given: PlayerInput, open_source: Callable[[PlayerInput], PictureSource]) -> None:
        self.given = given
        self._open_source = open_source
        self._wish = threading.Condition()
        self._wanted: _Wish | None = None
        self._asked = self._answered = 0
        self._is_closed = False
        self._is_paused = False
        self._is_over = False
        self._is_measuring = False
        self._state = FeedState()
        self._thread: threading.Thread | None = None

    @property
    def state(self) -> FeedState:
        """What is ready now."""
        return self._state

    @property
    def is_busy(self) -> bool:
        """Whether a picture, the input's length or more of its rates is still to come."""
        with self._wish:
            return self._answered != self._asked or self._is_measuring

    def want(self, position_us: int, look: EventLook | None = None) -> None:
        """Asks for the picture of a moment since the input's beginning; an older wish that waits is forgotten."""
        with self._wish:
            if self._is_over:
                return
            self._asked += 1
            self._wanted = _Wish(self._asked, position_us, look)
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

    def _next_wish(self) -> _Wish | None:
        """What is wanted next; None when the feed is closed."""
        with self._wish:
            self._wish.wait_for(lambda: self._is_closed or (self._wanted is not None and not self._is_paused))
            wanted, self._wanted = self._wanted, None
            return None if self._is_closed else wanted

    def _is_at_leisure(self) -> bool:
        with self._wish:
            return self._wanted is None and not self._is_paused and not self._is_closed

    def _answer(self, state: FeedState, wish: _Wish | None, *, is_measuring: bool = False) -> None:
        """Shows what came of a wish; None: nothing more will come of any.

        `is_measuring`: the input's length or rates are still to come.
        """
        with self._wish:
            self._state = state
            self._is_over = wish is None
            self._is_measuring = is_measuring
            self._answered = self._asked if wish is None else wish.number

    def _work(self) -> None:
        wanted = self._next_wish()
        if wanted is None:
            return
        try:
            source = self._open_source(self.given)
        except UserError as error:
            self._answer(FeedState(self._state.serial + 1, sentence=error.sentence), None)
            return
        try:
            while wanted is not None:
                self._fulfil(wanted, source)
                wanted = self._next_wish()
        except UserError as error:
            self._answer(FeedState(self._state.serial + 1, None, 0, source.duration_us, error.sentence), None)
        finally:
            source.close()

    def _fulfil(self, wanted: _Wish, source: PictureSource) -> None:
        """One picture, and what is likely wanted next while nothing else is."""
        picture = source.picture_at(wanted.position_us, wanted.look)
        state = FeedState(
            self._state.serial + 1,
            picture,
            wanted.position_us,
            source.duration_us,
            is_drawn=source.is_drawn,
            note=source.note,
            rates=source.rates,
        )
        will_prepare = self._is_at_leisure()
        was_known = source.is_length_known
        self._answer(state, wanted, is_measuring=will_prepare)
        if will_prepare:
            source.prepare(wanted.position_us)
            if not was_known:
                state = replace(state, serial=state.serial + 1, duration_us=source.duration_us)
                self._answer(state, wanted, is_measuring=True)
            self._look_on(wanted, source, state)

    def _look_on(self, wanted: _Wish, source: PictureSource, state: FeedState) -> None:
        """Finds out about rates until something is wanted or all is known."""
        while self._is_at_leisure() and source.look_on():
            state = replace(state, serial=state.serial + 1, rates=source.rates)
            self._answer(state, wanted, is_measuring=True)
        self._answer(state, wanted)


@dataclass(frozen=True)
class _Wish:
    number: int
    position_us: int
    look: EventLook | None
