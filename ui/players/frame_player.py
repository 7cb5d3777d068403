"""A small screen that shows one input at the shared position, or the run's own frames when the file is gone.

The feed's thread makes pictures; the screen takes the latest one at each tick of its timer.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QImage, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy

from evprof.core.texts import plain
from evprof.loaders.pictures.frame_folder import is_there
from evprof.view.event_rates import Rates
from ui.players.clip_range import moment_words
from ui.players.event_look import EventLook
from ui.players.frame_strip import FramePictures
from ui.players.picture_feed import FeedState, PictureFeed, PictureSource, PlayerInput, VideoPictures
from ui.players.play_clock import TICK_MS, InputSpan, PlayClock
from ui.run_facts.run_text import input_name
from ui.style.theme import SMALL_PX, ThemeHolder
from ui.widgets.drawn import Drawn

INPUT_PX = 108
"""Height of a player beside the frames of a run."""

ASPECT = 4 / 3
"""Of most cameras; wider pictures are drawn smaller."""

_OUTSIDE_OPACITY = 0.35
"""Of the first or last picture while the position lies outside the input."""

_CAPTION_PX = 10.0


class FramePlayer(Drawn):
    """One input. Event and video players differ in how their file is opened.

    Signals:
        failed(str): the file is there and cannot be shown; a sentence.
    """

    failed = Signal(str)

    def __init__(
        self, themes: ThemeHolder, clock: PlayClock, open_source: Callable[[PlayerInput], PictureSource], what: str
    ) -> None:
        super().__init__(themes)
        self._clock = clock
        self._open_source = open_source
        self._what = what
        self._feed: PictureFeed | None = None
        self._state = FeedState()
        self._image: QImage | None = None
        self._frames: FramePictures | None = None
        self._given: PlayerInput | None = None
        self._length_us: int | None = None
        self._is_painted = False
        self.note = ""
        """Why the file itself is not shown; empty when it is."""

        self._timer = QTimer(self)
        self._timer.setInterval(TICK_MS)
        self._timer.timeout.connect(self._take)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Expanding)
        self.setAccessibleName(f"{what} player")
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        clock.position_changed.connect(self._seek)
        clock.changed.connect(self._note_clock)

    @property
    def image(self) -> QImage | None:
        """The picture on the screen: the file's, or the run's frame at the position."""
        if self._image is not None or self._frames is None:
            return self._image
        index = self._frames.index_at(self._clock.position_us)
        return None if index is None else self._frames.images[index]

    @property
    def is_waiting(self) -> bool:
        """Whether the file is open and its picture not there yet."""
        if self._feed is None or self._clock.is_suspended:
            return False
        serial = self._feed.state.serial
        return serial == 0 or serial != self._state.serial or self._feed.is_busy

    @property
    def is_drawn(self) -> bool:
        return self._state.is_drawn and self._image is not None

    @property
    def look(self) -> EventLook | None:
        """How events are drawn; None for a video."""
        return None

    def sizeHint(self) -> QSize:
        return QSize(round(INPUT_PX * ASPECT), INPUT_PX)

    def set_alone(self, is_alone: bool) -> None:
        """Whether it has its row for itself; otherwise it is as wide as its picture beside the frames of a run."""
        horizontal = QSizePolicy.Policy.Expanding if is_alone else QSizePolicy.Policy.Fixed
        self.setSizePolicy(horizontal, QSizePolicy.Policy.Expanding)

    def show_input(self, given: PlayerInput | None, frames: FramePictures | None) -> None:
        """Shows a file, or `frames` (the run's own) when it is gone or cannot be read."""
        self._frames = frames
        before, self._given = self._given, given
        if (given and given.files) != (before and before.files):
            self.close_feed()
            self._open()
        elif given != before:
            self._set_span()
            self.ask_again()
        self.refresh()

    def refresh(self) -> None:
        """Takes in new frames of the run; their length counts while there is no file."""
        if self._feed is None:
            self._set_span()
        self.update()

    def ask_again(self) -> None:
        self._seek(self._clock.position_us)

    def close_feed(self) -> None:
        """Ends the thread that makes the pictures."""
        self._timer.stop()
        if self._feed is not None:
            self._feed.close()
        self._feed = self._image = self._length_us = None
        self._state = FeedState()
        self.picture_placed(None)
        self.rates_known(None)
        self._clock.set_span(self, None)

    def _open(self) -> None:
        self.note = ""
        given = self._given
        if given is None:
            return
        if not is_there(given.path):
            has_frames = self._frames is not None and bool(self._frames.images)
            rest = "gone; these are the frames of the run" if has_frames else "not on this machine"
            self.note = f"{input_name(given.path)} is {rest}"
            return
        self._feed = PictureFeed(given, self._open_source)
        self._feed.set_paused(self._clock.is_suspended)
        self.ask_again()

    def _set_span(self) -> None:
        """When this input is shown; of a run whose file is gone, when its frames are."""
        span = None
        if self._length_us is not None and self._given is not None:
            start = self._given.offset_us
            span = InputSpan(self._what, start, start + self._length_us)
        elif self._feed is None and self._frames is not None and self._frames.span is not None:
            span = InputSpan(self._what, *self._frames.span)
        self._clock.set_span(self, span)

    def _seek(self, position_us: int) -> None:
        # A file is opened after the window's first picture, which it would delay.
        if self._feed is not None and self._given is not None and self._is_painted:
            self._feed.want(position_us - self._given.offset_us, self.look)
            if not self._clock.is_suspended:
                self._timer.start()
        self.update()

    def _note_clock(self) -> None:
        if self._feed is not None:
            self._feed.set_paused(self._clock.is_suspended)
            if self._clock.is_suspended:
                self._timer.stop()
            elif self.is_waiting:
                self._timer.start()
        self.update()

    def _take(self) -> None:
        feed = self._feed
        if feed is None:
            self._timer.stop()
            return
        # Busy is read first, so that a state that follows it is still taken.
        is_busy, state = feed.is_busy, feed.state
        if not is_busy:
            self._timer.stop()
        if state.serial == self._state.serial:
            return
        before, self._state = self._state, state
        if state.rates is not before.rates:
            self.rates_known(state.rates)
        if state.duration_us is not None and state.duration_us != self._length_us:
            self._length_us = state.duration_us
            self._set_span()
        if state.picture is None:
            self.note, self._image = state.sentence, None
            self.failed.emit(state.sentence)
        elif state.picture is not before.picture:
            height, width, _ = state.picture.shape
            self._image = QImage(state.picture.data, width, height, 3 * width, QImage.Format.Format_RGB888).copy()
        self.picture_placed(self.picture_place())
        self.update()

    def picture_place(self) -> QRectF | None:
        """Where the picture stands; None without one."""
        image = self.image
        if image is None or image.isNull():
            return None
        screen = self.room()
        size = image.size().scaled(screen.size().toSize(), Qt.AspectRatioMode.KeepAspectRatio)
        return QRectF(screen.left(), screen.top(), size.width(), size.height())

    def rates_known(self, rates: Rates | None) -> None:
        """For players of events: event rates as far as they are known."""

    def picture_placed(self, place: QRectF | None) -> None:
        """For players with widgets on their picture's edge."""

    def room(self) -> QRectF:
        return QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._clock.set_playing(not self._clock.is_playing)

    def paintEvent(self, _event: QPaintEvent) -> None:
        if not self._is_painted:
            self._is_painted = True
            QTimer.singleShot(0, self, self.ask_again)
        painter = QPainter(self)
        painter.setRenderHints(QPainter.RenderHint.SmoothPixmapTransform | QPainter.RenderHint.Antialiasing)
        theme = self._themes.theme
        place, image = self.picture_place(), self.image
        if place is None or image is None:
            screen = self.room()
            screen.setWidth(min(screen.width(), screen.height() * ASPECT))
            painter.fillRect(screen, theme.raised)
            painter.setPen(theme.text_dim)
            painter.setFont(theme.font(SMALL_PX))
            text = plain(self.note or ("" if self._feed else f"No {self._what}"))
            flags = int(Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap)
            painter.drawText(screen.adjusted(8, 8, -8, -8), flags, text)
            return
        outside = self._outside()
        painter.setOpacity(_OUTSIDE_OPACITY if outside else 1.0)
        painter.drawImage(place, image)
        painter.setOpacity(1.0)
        painter.setPen(theme.line)
        painter.drawRect(place)
        if self._clock.is_suspended and self._clock.is_playing:
            self._caption(painter, place, "paused while a run is measured")
        elif text := self.note or outside:
            self._caption(painter, place, text)

    def _outside(self) -> str:
        """When this input is shown, where the position lies outside of it; else empty."""
        if self._length_us is None or self._given is None:
            return ""
        position = self._clock.position_us - self._given.offset_us
        if position < 0:
            return f"{self._what} from {moment_words(self._given.offset_us)} on"
        if position > self._length_us:
            return f"{self._what} up to {moment_words(self._given.offset_us + self._length_us)}"
        return ""

    def _caption(self, painter: QPainter, place: QRectF, text: str) -> None:
        """A sentence on a band over the picture's foot; it wraps."""
        theme, text = self._themes.theme, plain(text)
        painter.setFont(theme.font(_CAPTION_PX))
        flags = int(Qt.AlignmentFlag.AlignLeft | Qt.TextFlag.TextWordWrap)
        inner = painter.boundingRect(QRectF(0, 0, place.width() - 12, 200), flags, text)
        band = QRectF(place.left(), place.bottom() - inner.height() - 6, place.width(), inner.height() + 6)
        painter.fillRect(band, theme.alpha(theme.panel, 0.88))
        painter.setPen(theme.text)
        painter.drawText(band.adjusted(6, 3, -6, -3), flags, text)


def video_player(themes: ThemeHolder, clock: PlayClock) -> FramePlayer:
    """Plays a video or a folder of pictures in step with the events."""
    return FramePlayer(themes, clock, VideoPictures, "video")
