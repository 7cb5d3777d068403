"""The scrubber under both inputs: one position in sensor time, the part to run, playing and its speed.

On top of the track lies the part that the next run takes, below it one rail for each input; the moments that each model
saw stand above and below the rails.
"""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QPoint, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFontMetrics, QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QMenu, QSizePolicy, QToolButton, QWidget

from ui.players.clip_range import (
    BEGIN,
    BODY,
    END,
    NOTHING,
    PRESETS_US,
    ClipRange,
    ScrubScale,
    duration_words,
    moment_words,
)
from ui.players.frame_strip import FramePictures
from ui.players.play_clock import PlayClock
from ui.style.icons import SIZE, icon
from ui.style.theme import GRID, Theme, ThemeHolder
from ui.widgets.boxes import beside, in_role
from ui.widgets.drawn import Drawn
from ui.widgets.label import Label, elided_text, literal

HEIGHT = 28
_CLIP_BOTTOM = 10.0
"""The clip lies above, the position below."""

_RAILS = {"events": 16.5, "video": 20.5}
_STEP_SHARE = 50
_FINE_US = 10_000
_RATE_TEXTS = {1.0: "1×", 0.25: "¼×", 0.1: "⅒×"}
_CLIP_PX = 132


class ScrubTrack(Drawn):
    """Position and clip by mouse and keyboard.

    Signals:
        clip_changed(object): the user chose another part; a ClipRange.
    """

    clip_changed = Signal(object)

    def __init__(self, themes: ThemeHolder, clock: PlayClock) -> None:
        super().__init__(themes)
        self._clock = clock
        self._moments: tuple[FramePictures | None, FramePictures | None] = (None, None)
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
        return ScrubScale(self._clock.start_us, self._clock.stop_us, self.width())

    def show_moments(self, first: FramePictures | None, second: FramePictures | None) -> None:
        """Marks the frames of the left column above and those of the right column below the rails."""
        self._moments = (first, second)
        self.update()

    def show_clip(self, clip: ClipRange, is_editable: bool) -> None:
        """The part that the next run takes, or a run took; a clip that the mouse holds stays."""
        self.is_editable = is_editable
        if self._held == NOTHING:
            self.clip = clip
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        theme, scale, clock = self._themes.theme, self.scale, self._clock
        if not clock.duration_us:
            painter.fillRect(QRectF(scale.x(0), 18, scale.room, 1), theme.line)
            return
        self._paint_clip(painter, theme, scale)
        start, x = scale.x(max(clock.start_us, 0)), scale.x(clock.position_us)
        painter.fillRect(QRectF(min(start, x), 17.5, abs(x - start), 2), theme.accent)
        for span in clock.spans:
            left, right = scale.x(span.start_us), scale.x(span.stop_us)
            rail = QRectF(left, _RAILS[span.what] - 0.5, max(1.0, right - left), 1)
            painter.fillRect(rail, theme.alpha(theme.text_dim, 0.75))
        for pictures, top in zip(self._moments, (11.5, 24.0), strict=True):
            for one in () if pictures is None else pictures.slices:
                left, right = scale.x(one.start_us), scale.x(one.stop_us)
                painter.fillRect(QRectF(left, top, max(2.0, right - left - 1.5), 3), theme.alpha(theme.text_dim, 0.7))
        painter.setBrush(theme.accent)
        painter.drawRoundedRect(QRectF(x - 2, 11, 4, 16), 2, 2)

    def _paint_clip(self, painter: QPainter, theme: Theme, scale: ScrubScale) -> None:
        left, right = scale.edges(self.clip)
        begin = scale.x(max(0, self._clock.start_us))
        painter.fillRect(QRectF(begin, 4.5, scale.x(self._clock.stop_us) - begin, 1), theme.line)
        is_quiet = self.clip.is_all
        color = theme.text_dim if is_quiet or not self.is_editable else theme.accent
        if not is_quiet:
            painter.fillRect(QRectF(left, 9, right - left, HEIGHT - 9), theme.alpha(color, 0.14))
            painter.fillRect(QRectF(left, 3, right - left, 4), color)
        if self.is_editable:
            painter.setBrush(theme.alpha(color, 0.6) if is_quiet else color)
            for grip in (QRectF(left - 5, 0, 5, 10), QRectF(right, 0, 5, 10)):
                painter.drawRoundedRect(grip, 2, 2)

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
            sizes, body = Qt.CursorShape.SizeHorCursor, Qt.CursorShape.OpenHandCursor
            shapes = {BEGIN: sizes, END: sizes, BODY: body, NOTHING: Qt.CursorShape.PointingHandCursor}
            self.setCursor(shapes[self._part_at(event.position())])
            return
        goal_us = time_us = self.scale.time_us(event.position().x())
        if self._held == BEGIN:
            self.clip = self.clip.with_begin(time_us)
            goal_us = self.clip.begin_us
        elif self._held == END:
            self.clip = self.clip.with_end(time_us)
            goal_us = self.clip.end_us
        elif self._held == BODY:
            self.clip = self._held_clip.moved(self._held_clip.begin_us + time_us - self._held_at_us)
            goal_us = self.clip.begin_us
        self._clock.seek(goal_us)
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
        if point.y() <= _CLIP_BOTTOM:
            if not self.is_editable:
                return f"The run took {self.clip.words}" if not self.clip.is_all else ""
            return (
                f"The next run takes {self.clip.words}.\nDrag the ends, or press I and O for begin and end at the "
                "position, Delete for all."
            )
        stretches = [(span.what, (span.start_us, span.stop_us)) for span in self._clock.spans]
        if (overlap := self._clock.overlap_us) is not None:
            stretches.append(("both", overlap))
        return "\n".join(f"{name}: {moment_words(ends[0])} to {moment_words(ends[1])}" for name, ends in stretches)


class Scrubber(QWidget):
    """Play button, track, time, part to run, and speed.

    Signals:
        clip_changed(object): the user chose another part of the sample; a ClipRange.
    """

    clip_changed = Signal(object)

    def __init__(self, themes: ThemeHolder, clock: PlayClock) -> None:
        super().__init__()
        self._themes = themes
        self._clock = clock
        self.obstacle = ""
        """Why no part can be chosen now."""

        self.track = ScrubTrack(themes, clock)
        self.track.clip_changed.connect(self.clip_changed)
        self._play = _quiet_button("Play or pause both inputs")
        self._play.clicked.connect(lambda: clock.set_playing(not clock.is_playing))
        self._time = in_role(Label(), "small")
        self._time.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._time.setFixedWidth(104)
        self._rate = _quiet_button("Playing speed")
        self._rate.setFixedWidth(36)
        self._rate.clicked.connect(clock.next_rate)
        self.clip_button = _quiet_button("Which part the next run takes")
        self.clip_button.setFixedWidth(_CLIP_PX)
        self.clip_button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.clip_button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._menu = QMenu(self.clip_button)
        self._menu.aboutToShow.connect(self._fill_menu)
        self.clip_button.setMenu(self._menu)
        beside(self._play, self.track, self._time, self._rate, self.clip_button, on=self, spacing=GRID)
        clock.position_changed.connect(self._show_time)
        clock.changed.connect(self._show_state)
        themes.changed.connect(self._show_state)
        self.show_clip(ClipRange(), "Open a sample first.")

    @property
    def clip(self) -> ClipRange:
        return self.track.clip

    def show_clip(self, clip: ClipRange, obstacle: str = "") -> None:
        """The part that the next run takes; `obstacle` says why it cannot be changed, empty when it can."""
        self.obstacle = obstacle
        self.track.show_clip(clip, is_editable=not obstacle)
        self._clock.part = None if clip.is_all else (clip.begin_us, clip.end_us)
        self._show_state()

    def take(self, length_us: int | None) -> None:
        """Takes this length from the position on; None: up to the end."""
        self.clip_changed.emit(self.clip.from_here(self._clock.position_us, length_us))

    def _fill_menu(self) -> None:
        menu, whole, is_free = self._menu, self.clip.whole_us, not self.obstacle
        menu.clear()
        for length_us in PRESETS_US:
            action = menu.addAction(f"{duration_words(length_us)} from here", partial(self.take, length_us))
            action.setEnabled(is_free and length_us < whole)
        rest = menu.addAction("From here to the end", partial(self.take, None))
        rest.setEnabled(is_free and 0 < self._clock.position_us < whole)
        menu.addSeparator()
        everything = menu.addAction("All of it", lambda: self.clip_changed.emit(self.clip.all()))
        everything.setEnabled(is_free and not self.clip.is_all)

    def _show_state(self, *_: object) -> None:
        theme, clock, clip = self._themes.theme, self._clock, self.clip
        self._play.setIcon(icon("pause" if clock.is_playing else "play", theme))
        self._play.setEnabled(clock.duration_us > 0 and not clock.is_suspended)
        self._play.setToolTip("Paused while a run is measured" if clock.is_suspended else "Play or pause (Space)")
        self._rate.setText(_RATE_TEXTS[clock.rate])
        is_chosen = not clip.is_all and not self.obstacle
        self.clip_button.setIcon(icon("clip", theme, theme.accent if is_chosen else theme.text_dim))
        metrics, room = QFontMetrics(self.clip_button.font()), _CLIP_PX - SIZE - 2 * GRID
        words = " whole sample" if clip.is_all else f" {clip.words}"
        self.clip_button.setText(literal(elided_text(metrics, words, Qt.TextElideMode.ElideRight, room)))
        choose = f"The next run takes {clip.words}.\nChoose a part."
        self.clip_button.setToolTip(self.obstacle or choose)
        self._show_time()

    def _show_time(self, *_: object) -> None:
        place, stop = self._clock.position_us, self._clock.stop_us
        unit, digits, name = (1000, 1, "ms") if stop < 1_000_000 else (1_000_000, 2, "s")
        shown = f"{place / unit:.{digits}f} / {stop / unit:.{digits}f} {name}"
        self._time.setText(shown if self._clock.duration_us else "")


def _quiet_button(tip: str) -> QToolButton:
    button = in_role(QToolButton(), "quiet")
    button.setToolTip(tip)
    button.setAccessibleName(tip)
    button.setFixedHeight(24)
    button.setIconSize(QSize(SIZE, SIZE))
    button.setStyleSheet("QToolButton { padding: 0 4px; min-height: 0; }")
    return button
