"""The event player: the events of the last moment, a region of them, and the curve of event rates below."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QPoint, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QMouseEvent, QPainter, QPaintEvent, QPen, QPolygonF, QResizeEvent
from PySide6.QtWidgets import QWidget

from evprof.view.event_rates import Rates, Region, rate_words
from evprof.view.lanes import Floats
from evprof.view.real_time import KEEPS_UP
from ui.players.clip_range import moment_words
from ui.players.event_look import POINTS, EventLook
from ui.players.frame_player import ASPECT, INPUT_PX, FramePlayer
from ui.players.look_choice import LookButton, LookChoice
from ui.players.picture_feed import event_pictures
from ui.players.play_clock import PlayClock
from ui.style.theme import ThemeHolder
from ui.widgets.drawn import Drawn

if TYPE_CHECKING:
    from evprof.metrics.costs.two_clocks import SensedWindow


RATE_PX = 20
_WINDOW_PX = 3


class RateCurve(Drawn):
    """Two areas from a middle line, as long as the recording; a click goes there.

    Below them a bar for each part of the recording that runs took: red where computing took longer than sensing.
    """

    def __init__(self, themes: ThemeHolder, clock: PlayClock, parent: QWidget) -> None:
        super().__init__(themes, parent)
        self._clock = clock
        self.rates: Rates | None = None
        self._in_region = False
        self.windows: list[SensedWindow] = []
        self.setAccessibleName("Event rate")
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.hide()
        clock.position_changed.connect(self._redraw)

    def show_rates(self, rates: Rates | None, in_region: bool) -> None:
        """Rates of a region or of the whole sensor; None takes them away."""
        self.rates, self._in_region = rates, in_region
        self.update()

    def show_windows(self, windows: list[SensedWindow]) -> None:
        """Parts of the recording that runs took, with their pace."""
        if windows != self.windows:
            self.windows = windows
            self.update()

    def words_at(self, moment_us: int) -> str:
        rates = self.rates
        place = None if rates is None else rates.place_of(moment_us)
        if rates is None or place is None:
            return ""
        if not rates.looked_us[place]:
            return f"{moment_words(moment_us)}: not counted yet"
        on, off = rate_words(rates.on_per_s[place]), rate_words(rates.off_per_s[place])
        where = " in the region" if self._in_region else ""
        start, stop = rates.edges(place)
        looked = f"\n{rates.looked_us[place] / 1000:.3g} of every {(stop - start) / 1000:.3g} ms were counted"
        told = f"{moment_words(moment_us)}: ON {on}, OFF {off}{where}{looked if rates.is_sampled else ''}"
        return "\n".join(
            (told, *(_window_words(one) for one in self.windows if one.start_us <= moment_us < one.stop_us))
        )

    def moment_at(self, x: float) -> int:
        share = min(1.0, max(0.0, x / max(1, self.width())))
        return 0 if self.rates is None else round(share * (self.rates.stop_us - 1))

    def paintEvent(self, _event: QPaintEvent) -> None:
        rates = self.rates
        if rates is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme, middle = self._themes.theme, (self.height() - _WINDOW_PX) / 2
        on, off = np.nan_to_num(rates.on_per_s), np.nan_to_num(rates.off_per_s)
        highest = max(1e-9, float(on.max()), float(off.max()))
        painter.setPen(Qt.PenStyle.NoPen)
        for heights, color in ((on, theme.text_dim), (-off, theme.alpha(theme.text_dim, 0.5))):
            painter.setBrush(color)
            painter.drawPolygon(self._area(rates, heights / highest * (middle - 1), middle))
        painter.fillRect(QRectF(0, middle - 0.5, self.width(), 1), theme.line)
        scale = self.width() / rates.stop_us
        for one in self.windows:
            color = theme.bad if one.factor > KEEPS_UP else theme.alpha(theme.text_dim, 0.7)
            left, right = one.start_us * scale, min(one.stop_us, rates.stop_us) * scale
            painter.fillRect(QRectF(left, self.height() - 2, max(1.5, right - left - 1), 2), color)
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


def _window_words(one: SensedWindow) -> str:
    """`run 7: 0.48 ms of computing for 1 ms of the scene`."""
    behind = ", falling behind" if one.factor > KEEPS_UP else ""
    return f"run {one.run_id}: {one.factor:.2f} ms of computing for 1 ms of the scene{behind}"


_INSET = 4
_DRAG_PX = 4.0
_CLEAR_PX = 14.0


class EventPlayer(FramePlayer):
    """Plays an event recording or a folder of event frames. A drag chooses a region, or turns what is seen in space."""

    def __init__(
        self, themes: ThemeHolder, clock: PlayClock, choice: LookChoice | None = None, parent: QWidget | None = None
    ) -> None:
        self._pressed: QPointF | None = None
        self._dragged: QPointF | None = None
        super().__init__(themes, clock, event_pictures, "events", parent)
        self._choice = choice if choice is not None else LookChoice(parent=self)
        self.look_button = LookButton(themes, self._choice, self)
        self.look_button.hide()
        self.rate_curve = RateCurve(themes, clock, self)
        self._choice.changed.connect(self.ask_again)
        themes.changed.connect(self.ask_again)

    @property
    def look(self) -> EventLook:
        """What was chosen, in the colours of the theme unless others were."""
        return self._choice.look.in_theme(self._themes.theme.is_dark)

    def sizeHint(self) -> QSize:
        return QSize(round((INPUT_PX - RATE_PX - _INSET) * ASPECT), INPUT_PX)

    def rates_known(self, rates: Rates | None) -> None:
        self.rate_curve.show_rates(rates, self.look.region is not None)

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

    # The region.

    @property
    def is_in_space(self) -> bool:
        return self.is_drawn and self.look.rendering == POINTS

    def region_place(self) -> QRectF | None:
        """Where the region's frame stands; None without one, and in space."""
        place, image, region = self.picture_place(), self.image, self.look.region
        if place is None or image is None or region is None or not self.is_drawn or self.is_in_space:
            return None
        scale = place.width() / image.width()
        left, top = place.left() + region.left * scale, place.top() + region.top * scale
        size = (region.right - region.left) * scale, (region.bottom - region.top) * scale
        return QRectF(left, top, *size).intersected(place)

    def clear_place(self) -> QRectF | None:
        """What clears the region with one click: its upper left corner, inside."""
        place = self.region_place()
        return None if place is None else QRectF(place.left(), place.top(), _CLEAR_PX, _CLEAR_PX)

    def _region_between(self, first: QPointF, second: QPointF) -> Region | None:
        place, image = self.picture_place(), self.image
        if place is None or image is None:
            return None
        scale = image.width() / place.width()
        ends = [((at.x() - place.left()) * scale, (at.y() - place.top()) * scale) for at in (first, second)]
        return Region.between(ends[0], ends[1], image.width(), image.height())

    # The mouse.

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._pressed = event.position()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        at, pressed = event.position(), self._pressed
        if pressed is None or not self.is_drawn:
            return
        if self._dragged is None and (at - pressed).manhattanLength() < _DRAG_PX:
            return
        moved, self._dragged = at - (self._dragged or pressed), at
        if self.is_in_space:
            look = self._choice.look
            self._choice.choose(replace(look, turn=look.turn.by(moved.x(), -moved.y())))
        self.update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """A drag takes a region; a click clears it in its corner, and plays elsewhere."""
        (pressed, self._pressed), (dragged, self._dragged) = (self._pressed, None), (self._dragged, None)
        if pressed is None or event.button() != Qt.MouseButton.LeftButton:
            return
        look, clear = self._choice.look, self.clear_place()
        if dragged is not None and not self.is_in_space:
            self._choice.choose(replace(look, region=self._region_between(pressed, dragged)))
        elif dragged is None and clear is not None and clear.contains(pressed):
            self._choice.choose(replace(look, region=None))
        elif dragged is None:
            super().mousePressEvent(event)
        self.update()

    def tip_at(self, point: QPoint) -> str:
        if not self.is_drawn:
            return ""
        clear = self.clear_place()
        if clear is not None and clear.contains(point.toPointF()):
            return "Clear the region"
        does = "drag turns it" if self.is_in_space else "drag chooses a region to count events in"
        return "\n".join(filter(None, (self.told, f"Click plays; {does}")))

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        painter, color, place = QPainter(self), self._themes.theme.accent, self.picture_place()
        if self._pressed is not None and self._dragged is not None and not self.is_in_space and place is not None:
            painter.setPen(QPen(color, 1, Qt.PenStyle.DashLine))
            painter.drawRect(QRectF(self._pressed, self._dragged).normalized().intersected(place))
            return
        region, clear = self.region_place(), self.clear_place()
        if region is not None and clear is not None:
            painter.setPen(QPen(color, 1))
            painter.drawRect(region)
            painter.fillRect(clear, color)
            painter.setPen(self._themes.theme.ink(color))
            painter.drawText(clear, Qt.AlignmentFlag.AlignCenter, "×")
