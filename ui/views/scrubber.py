"""The scrubber under both inputs: one position in sensor time, with the moments each model was shown."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QToolButton, QWidget

from ui.icons import SIZE, icon
from ui.models.frame_pictures import FramePictures
from ui.models.play_clock import PlayClock
from ui.theme import GRID, Theme, ThemeHolder

_RATE_TEXTS = {1.0: "1×", 0.25: "¼×", 0.1: "⅒×"}
_STEP_SHARE = 50


class ScrubTrack(QWidget):
    """The line itself: slices of the event frames above it, video frames below it, the position across."""

    def __init__(self, themes: ThemeHolder, clock: PlayClock, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self._clock = clock
        self._moments: tuple[FramePictures | None, FramePictures | None] = (None, None)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setAccessibleName("Position in the recording")
        clock.position_changed.connect(self._redraw)
        clock.changed.connect(self._redraw)
        themes.changed.connect(self._redraw)

    def sizeHint(self) -> QSize:
        return QSize(200, 24)

    def show_moments(self, first: FramePictures | None, second: FramePictures | None) -> None:
        """Whose frames are marked above (left column) and below (right column) the line."""
        self._moments = (first, second)
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme = self._themes.theme
        middle = self.height() / 2
        painter.fillRect(QRectF(0, middle - 0.5, self.width(), 1), theme.line)
        whole = self._clock.duration_us
        if not whole:
            return
        for pictures, top in zip(self._moments, (middle - 7, middle + 4), strict=True):
            self._paint_moments(painter, pictures, top, theme)
        x = self._x(self._clock.position_us)
        painter.fillRect(QRectF(0, middle - 1, x, 2), theme.accent)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.accent)
        painter.drawRoundedRect(QRectF(x - 2, 3, 4, self.height() - 6), 2, 2)
        if self.hasFocus():
            painter.setBrush(theme.alpha(theme.accent, 0.3))
            painter.drawRoundedRect(QRectF(x - 5, 1, 10, self.height() - 2), 4, 4)

    def _paint_moments(self, painter: QPainter, pictures: FramePictures | None, top: float, theme: Theme) -> None:
        if pictures is None:
            return
        color: QColor = theme.alpha(theme.text_dim, 0.7)
        for record in pictures.records:
            left = self._x(record.start_us - pictures.origin_us)
            right = self._x(record.end_us - pictures.origin_us)
            painter.fillRect(QRectF(left, top, max(2.0, right - left - 1.5), 3), color)

    def _x(self, position_us: int) -> float:
        whole = self._clock.duration_us
        return 2 + (self.width() - 4) * position_us / whole if whole else 2.0

    def _seek(self, event: QMouseEvent) -> None:
        share = (event.position().x() - 2) / max(1, self.width() - 4)
        self._clock.seek(round(share * self._clock.duration_us))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._clock.set_playing(False)
            self._seek(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if event.buttons() & Qt.MouseButton.LeftButton:
            self._seek(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = max(1, self._clock.duration_us // _STEP_SHARE)
        match event.key():
            case Qt.Key.Key_Left:
                self._clock.seek(self._clock.position_us - step)
            case Qt.Key.Key_Right:
                self._clock.seek(self._clock.position_us + step)
            case Qt.Key.Key_Home:
                self._clock.seek(0)
            case Qt.Key.Key_End:
                self._clock.seek(self._clock.duration_us)
            case Qt.Key.Key_Space:
                self._clock.set_playing(not self._clock.is_playing)
            case _:
                super().keyPressEvent(event)

    def _redraw(self, *_: object) -> None:
        self.update()


class Scrubber(QWidget):
    """Play button, track, time and speed."""

    def __init__(self, themes: ThemeHolder, clock: PlayClock, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self._clock = clock
        self.track = ScrubTrack(themes, clock)
        self._play = _quiet_button("Play or pause both inputs")
        self._play.clicked.connect(self._toggle)
        self._time = QLabel()
        self._time.setProperty("role", "small")
        self._time.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._time.setFixedWidth(112)
        self._rate = _quiet_button("Playing speed")
        self._rate.setFixedWidth(36)
        self._rate.clicked.connect(clock.next_rate)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(GRID)
        for widget in (self._play, self.track, self._time, self._rate):
            row.addWidget(widget)
        clock.position_changed.connect(self._show_time)
        clock.changed.connect(self._show_state)
        themes.changed.connect(self._show_state)
        self._show_state()

    def _toggle(self) -> None:
        self._clock.set_playing(not self._clock.is_playing)

    def _show_state(self) -> None:
        theme = self._themes.theme
        self._play.setIcon(icon("pause" if self._clock.is_playing else "play", theme))
        self._play.setEnabled(self._clock.duration_us > 0 and not self._clock.is_suspended)
        self._play.setToolTip("Paused while a run is measured" if self._clock.is_suspended else "Play or pause (Space)")
        self._rate.setText(_RATE_TEXTS[self._clock.rate])
        self._show_time()

    def _show_time(self) -> None:
        whole = self._clock.duration_us
        if not whole:
            self._time.setText("")
            return
        place = self._clock.position_us
        if whole < 1_000_000:
            self._time.setText(f"{place / 1000:.1f} / {whole / 1000:.1f} ms")
        else:
            self._time.setText(f"{place / 1_000_000:.2f} / {whole / 1_000_000:.2f} s")


def _quiet_button(tip: str) -> QToolButton:
    button = QToolButton()
    button.setProperty("role", "quiet")
    button.setToolTip(tip)
    button.setAccessibleName(tip)
    button.setFixedHeight(24)
    button.setIconSize(QSize(SIZE, SIZE))
    button.setStyleSheet("QToolButton { padding: 0 4px; min-height: 0; }")
    return button
