"""The event player: the events of the last moment, and the curve of event rates below."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from PySide6.QtCore import QPoint, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QMouseEvent, QPainter, QPaintEvent, QPolygonF, QResizeEvent
from PySide6.QtWidgets import QWidget

from evprof.view.event_rates import Rates, rate_words
from evprof.view.lanes import Floats
from ui.players.clip_range import moment_words
from ui.players.event_look import EventLook
from ui.players.frame_player import ASPECT, INPUT_PX, FramePlayer
from ui.players.look_choice import LookButton, LookChoice
from ui.players.picture_feed import event_pictures
from ui.players.play_clock import PlayClock
from ui.style.theme import ThemeHolder
from ui.widgets.drawn import Drawn

RATE_PX, _INSET = 20, 4


class RateCurve(Drawn):
    """Two areas from a middle line, as long as the recording; a click goes there."""

    def __init__(self, themes: ThemeHolder, clock: PlayClock, parent: QWidget) -> None:
        super().__init__(themes, parent)
        self._clock = clock
        self.rates: Rates | None = None
        self.setAccessibleName("Event rate")
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.hide()
        clock.position_changed.connect(self._redraw)

    def words_at(self, moment_us: int) -> str:
        rates = self.rates
        place = None if rates is None else rates.place_of(moment_us)
        if rates is None or place is None:
            return ""
        if not rates.looked_us[place]:
            return f"{moment_words(moment_us)}: not counted yet"
        on, off = rate_words(rates.on_per_s[place]), rate_words(rates.off_per_s[place])
        start, stop = rates.edges(place)
        looked = f"\n{rates.looked_us[place] / 1000:.3g} of every {(stop - start) / 1000:.3g} ms were counted"
        return f"{moment_words(moment_us)}: ON {on}, OFF {off}{looked if rates.is_sampled else ''}"

    def moment_at(self, x: float) -> int:
        share = min(1.0, max(0.0, x / max(1, self.width())))
        return 0 if self.rates is None else round(share * (self.rates.stop_us - 1))

    def paintEvent(self, _event: QPaintEvent) -> None:
        rates = self.rates
        if rates is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme, middle = self._themes.theme, self.height() / 2
        on, off = np.nan_to_num(rates.on_per_s), np.nan_to_num(rates.off_per_s)
        highest = max(1e-9, float(on.max()), float(off.max()))
        painter.setPen(Qt.PenStyle.NoPen)
        for heights, color in ((on, theme.text_dim), (-off, theme.alpha(theme.text_dim, 0.5))):
            painter.setBrush(color)
            painter.drawPolygon(self._area(rates, heights / highest * (middle - 1), middle))
        painter.fillRect(QRectF(0, middle - 0.5, self.width(), 1), theme.line)
        x = min(self.width() - 1.0, self._clock.position_us / rates.stop_us * self.width())
        if x >= 0:
            painter.fillRect(QRectF(x - 0.5, 0, 1.5, self.height()), theme.accent)

    def _area(self, rates: Rates, heights: Floats, middle: float) -> QPolygonF:
        scale = self.width() / rates.stop_us
        points = [QPointF(0, middle)]
        for place, height in enumerate(heights.tolist()):
            start, stop = rates.edges(place)
            points += [QPointF(start * scale, middle - height), QPointF(stop * scale, middle - height)]
        points.append(QPointF(self.width(), middle))
        return QPolygonF(points)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.mouseMoveEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if event.buttons() & Qt.MouseButton.LeftButton:
            self._clock.set_playing(False)
            self._clock.seek(self.moment_at(event.position().x()))

    def tip_at(self, point: QPoint) -> str:
        return self.words_at(self.moment_at(point.x()))


class EventPlayer(FramePlayer):
    """Plays an event recording or a folder of event frames."""

    def __init__(self, themes: ThemeHolder, clock: PlayClock, choice: LookChoice | None = None) -> None:
        super().__init__(themes, clock, event_pictures, "events")
        self._choice = choice if choice is not None else LookChoice(parent=self)
        self.look_button = LookButton(themes, self._choice, self)
        self.look_button.hide()
        self.rate_curve = RateCurve(themes, clock, self)
        self._choice.changed.connect(self.ask_again)
        themes.changed.connect(self.ask_again)

    @property
    def look(self) -> EventLook:
        """The chosen look in the colours of the theme."""
        return replace(self._choice.look, is_dark=self._themes.theme.is_dark)

    def sizeHint(self) -> QSize:
        return QSize(round((INPUT_PX - RATE_PX - _INSET) * ASPECT), INPUT_PX)

    def rates_known(self, rates: Rates | None) -> None:
        self.rate_curve.rates = rates
        self.rate_curve.update()

    def picture_placed(self, place: QRectF | None) -> None:
        """The button stands in the upper right corner of a recording's picture, the curve below it."""
        is_shown = place is not None and self.is_drawn
        self.look_button.setVisible(is_shown)
        self.rate_curve.setVisible(is_shown)
        if place is not None and is_shown:
            left, top, width = round(place.left()), round(place.bottom()) + _INSET // 2, round(place.width())
            self.rate_curve.setGeometry(left, top, width, RATE_PX)
            self.look_button.fit(place.width() - 2 * _INSET)
            self.look_button.move(round(place.right()) - self.look_button.width() - _INSET, round(place.top()) + _INSET)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.picture_placed(self.picture_place())

    def room(self) -> QRectF:
        room = super().room()
        return room.adjusted(0, 0, 0, -RATE_PX - _INSET) if self.is_drawn else room

    def tip_at(self, point: QPoint) -> str:
        return "Click plays" if self.is_drawn else ""
