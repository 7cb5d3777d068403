"""The track of the scrubber: on top the part that the next run takes, below it one rail for each input.

The moments each model was shown stand above and below the rails, the position across both.
"""

from __future__ import annotations

from PySide6.QtCore import QPoint, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from ui.players.clip_range import ClipRange, moment_words
from ui.players.frame_pictures import FramePictures
from ui.players.play_clock import PlayClock
from ui.players.scrub_scale import BEGIN, BODY, END, NOTHING, ScrubScale
from ui.style.theme import Theme, ThemeHolder
from ui.widgets.drawn import Drawn

HEIGHT = 28
_CLIP_BOTTOM = 10.0
"""Above is the clip's, below the position's."""

_RAILS = (16.5, 20.5)
_STEP_SHARE = 50
_FINE_US = 10_000


class ScrubTrack(Drawn):
    """Position and clip by mouse and keyboard.

    Signals:
        clip_changed(object): the person chose another part; a ClipRange.
    """

    clip_changed = Signal(object)

    def __init__(self, themes: ThemeHolder, clock: PlayClock, parent: QWidget | None = None) -> None:
        super().__init__(themes, parent)
        self._clock = clock
        self._moments: tuple[FramePictures | None, FramePictures | None] = (None, None)
        self._is_seen = (False, False)
        self.clip = ClipRange()
        self.is_editable = False
        self._held = NOTHING
        self._held_at_us = 0
        self._held_clip = self.clip
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMouseTracking(True)
        self.setAccessibleName("Position in the recording, and the part to run")
        clock.position_changed.connect(self._redraw)
        clock.changed.connect(self._redraw)

    def sizeHint(self) -> QSize:
        return QSize(200, HEIGHT)

    @property
    def scale(self) -> ScrubScale:
        """Where moments lie now."""
        return ScrubScale(self._clock.start_us, self._clock.stop_us, self.width())

    def show_moments(self, first: FramePictures | None, second: FramePictures | None) -> None:
        """Whose frames are marked above (left column) and below (right column) the rails."""
        self._moments = (first, second)
        self.update()

    def show_seen(self, first: bool, second: bool) -> None:
        """Marks the moments of either model as what the selected thing is work on, or was drawn from."""
        if (first, second) != self._is_seen:
            self._is_seen = (first, second)
            self.update()

    def show_clip(self, clip: ClipRange, is_editable: bool) -> None:
        """The part that the next run takes, or a run took; a hand that holds it is not disturbed."""
        self.is_editable = is_editable
        if self._held == NOTHING:
            self.clip = clip
        self.update()

    # Painting.

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme, scale = self._themes.theme, self.scale
        if not self._clock.duration_us:
            painter.fillRect(QRectF(scale.x(0), 18, scale.room, 1), theme.line)
            return
        self._paint_clip(painter, theme, scale)
        self._paint_rails(painter, theme, scale)
        for pictures, is_seen, top in zip(self._moments, self._is_seen, (11.5, 24.0), strict=True):
            color = theme.accent if is_seen else theme.alpha(theme.text_dim, 0.7)
            self._paint_moments(painter, pictures, top, color, scale)
        x = scale.x(self._clock.position_us)
        painter.setPen(Qt.PenStyle.NoPen)
        if self.hasFocus():
            painter.setBrush(theme.alpha(theme.accent, 0.3))
            painter.drawRoundedRect(QRectF(x - 5, 10, 10, 18), 4, 4)
        painter.setBrush(theme.accent)
        painter.drawRoundedRect(QRectF(x - 2, 11, 4, 16), 2, 2)

    def _paint_clip(self, painter: QPainter, theme: Theme, scale: ScrubScale) -> None:
        left, right = scale.edges(self.clip)
        whole = QRectF(scale.x(max(0, self._clock.start_us)), 4.5, 0, 1)
        whole.setRight(scale.x(self._clock.stop_us))
        painter.fillRect(whole, theme.line)
        is_quiet = self.clip.is_all
        color = theme.text_dim if is_quiet or not self.is_editable else theme.accent
        painter.setPen(Qt.PenStyle.NoPen)
        if not is_quiet:
            painter.fillRect(QRectF(left, 9, right - left, HEIGHT - 9), theme.alpha(color, 0.14))
            painter.fillRect(QRectF(left, 3, right - left, 4), color)
        if not self.is_editable:
            return
        painter.setBrush(theme.alpha(color, 0.6) if is_quiet else color)
        for grip in (QRectF(left - 5, 0, 5, 10), QRectF(right, 0, 5, 10)):
            painter.drawRoundedRect(grip, 2, 2)

    def _paint_rails(self, painter: QPainter, theme: Theme, scale: ScrubScale) -> None:
        """Where each input is shown; both run side by side where they overlap."""
        start = scale.x(max(self._clock.start_us, 0))
        position = scale.x(self._clock.position_us)
        painter.fillRect(QRectF(min(start, position), 17.5, abs(position - start), 2), theme.accent)
        dim = theme.alpha(theme.text_dim, 0.75)
        for span in self._clock.spans:
            y = _RAILS[0] if span.what == "events" else _RAILS[1]
            left, right = scale.x(span.start_us), scale.x(span.stop_us)
            painter.fillRect(QRectF(left, y - 0.5, max(1.0, right - left), 1), dim)

    def _paint_moments(
        self, painter: QPainter, pictures: FramePictures | None, top: float, color: QColor, scale: ScrubScale
    ) -> None:
        if pictures is None:
            return
        for one in pictures.slices:
            left, right = scale.x(one.start_us), scale.x(one.stop_us)
            painter.fillRect(QRectF(left, top, max(2.0, right - left - 1.5), 3), color)

    # Mouse and keyboard.

    def _part_at(self, point: QPointF) -> str:
        if not self.is_editable or point.y() > _CLIP_BOTTOM or not self._clock.duration_us:
            return NOTHING
        return self.scale.part_at(point.x(), self.clip)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() != Qt.MouseButton.LeftButton:
            return
        self._clock.set_playing(False)
        self._held = self._part_at(event.position())
        self._held_at_us = self.scale.time_us(event.position().x())
        self._held_clip = self.clip
        if self._held == NOTHING:
            self._clock.seek(self._held_at_us)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if not event.buttons() & Qt.MouseButton.LeftButton:
            part = self._part_at(event.position())
            shapes = {BEGIN: Qt.CursorShape.SizeHorCursor, END: Qt.CursorShape.SizeHorCursor}
            shapes[BODY] = Qt.CursorShape.OpenHandCursor
            self.setCursor(shapes.get(part, Qt.CursorShape.PointingHandCursor))
            return
        time_us = self.scale.time_us(event.position().x())
        match self._held:
            case "begin":
                self.clip = self.clip.with_begin(time_us)
                self._clock.seek(self.clip.begin_us)
            case "end":
                self.clip = self.clip.with_end(time_us)
                self._clock.seek(self.clip.end_us)
            case "body":
                self.clip = self._held_clip.moved(self._held_clip.begin_us + time_us - self._held_at_us)
                self._clock.seek(self.clip.begin_us)
            case _:
                self._clock.seek(time_us)
        self.update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and self._held != NOTHING:
            self._held = NOTHING
            if self.clip != self._held_clip:
                self.clip_changed.emit(self.clip)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        clock = self._clock
        is_fine = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        step = _FINE_US if is_fine else max(1, clock.duration_us // _STEP_SHARE)
        match event.key():
            case Qt.Key.Key_Left:
                clock.seek(clock.position_us - step)
            case Qt.Key.Key_Right:
                clock.seek(clock.position_us + step)
            case Qt.Key.Key_Home:
                clock.seek(clock.start_us)
            case Qt.Key.Key_End:
                clock.seek(clock.stop_us)
            case Qt.Key.Key_Space:
                clock.set_playing(not clock.is_playing)
            case Qt.Key.Key_I if self.is_editable:
                self._choose(self.clip.with_begin(clock.position_us))
            case Qt.Key.Key_O if self.is_editable:
                self._choose(self.clip.with_end(clock.position_us))
            case Qt.Key.Key_Delete | Qt.Key.Key_Backspace if self.is_editable:
                self._choose(self.clip.all())
            case _:
                super().keyPressEvent(event)

    def _choose(self, clip: ClipRange) -> None:
        if clip != self.clip:
            self.clip = clip
            self.update()
            self.clip_changed.emit(clip)

    def tip_at(self, point: QPoint) -> str:
        """What is under the pointer: the part to run on top, the inputs below."""
        if point.y() <= _CLIP_BOTTOM:
            if not self.is_editable:
                return f"The run took {self.clip.words}" if not self.clip.is_all else ""
            return (
                f"The next run takes {self.clip.words}.\nDrag the ends, or press I and O for begin and end at the "
                "position, Delete for all."
            )
        lines = [
            f"{span.what}: {moment_words(span.start_us)} to {moment_words(span.stop_us)}" for span in self._clock.spans
        ]
        overlap = self._clock.overlap_us
        if overlap is not None:
            lines.append(f"both: {moment_words(overlap[0])} to {moment_words(overlap[1])}")
        return "\n".join(lines)
