"""What a second of input costs against how much happened in it: a dot for each frame, a line for all frames together.

Slices of events lie on a scale of events per second, frames of a video on one of motion; costs have one for both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log10

from PySide6.QtCore import QPoint, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from evprof.core.units import bytes_text, ms_text, number_text
from evprof.metrics.costs.second_costs import FrameSecond, SecondCost, SecondCosts
from evprof.view.decimate import nice_ceiling
from evprof.view.distributions import log_bounds, log_ticks
from ui.style.theme import SMALL_PX, Theme, ThemeHolder
from ui.widgets.elided import elided_text
from ui.widgets.picked_picture import PickedPicture

TOKENS, TIME, CACHE = "tokens", "ms", "kv"
AMOUNTS = ((TOKENS, "tokens"), (TIME, "time"), (CACHE, "KV bytes"))
"""What a second may cost, as keys and words."""

_TITLE, _FOOT, _GAP, _AXIS = 22.0, 38.0, 24.0, 62.0
_DOT = 9.0


@dataclass(frozen=True)
class SecondGroup:
    """One model's seconds with what stands above them."""

    letter: str
    title: str
    run_id: int
    role: str
    seconds: SecondCosts


@dataclass(frozen=True)
class SecondDot:
    """One frame, and its place."""

    group: SecondGroup
    frame: FrameSecond
    box: QRectF

    @property
    def tip(self) -> str:
        """What happened in it, and all that a second like it costs."""
        cost, activity = self.frame.cost, self.frame.activity
        words = "" if activity is None else f": {self.group.seconds.activity_text(activity)}"
        kind = "slice" if self.group.seconds.reads == "events" else "frame"
        told = [f"{number_text(cost.tokens, 3)} tokens", f"{bytes_text(cost.kv_bytes)} of KV"]
        if cost.ms is not None:
            told.insert(1, f"{ms_text(cost.ms)} before the first token")
        return f"{self.group.letter} · {kind} {self.frame.frame + 1}{words}\na second like it costs {', '.join(told)}"


class SecondScatter(PickedPicture):
    """A plot for each kind of input, on one scale of cost. What is picked is a SecondDot."""

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(themes, parent)
        self._groups: tuple[SecondGroup, ...] = ()
        self._amount = TOKENS
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumSize(160, 88)
        self.setAccessibleName("What a second of input costs")

    def sizeHint(self) -> QSize:
        return QSize(560, 260)

    def show_groups(self, groups: Sequence[SecondGroup], amount: str) -> None:
        """Shows these models' seconds by one of AMOUNTS."""
        if (tuple(groups), amount) != (self._groups, self._amount):
            self._groups, self._amount = tuple(groups), amount
            self.setAccessibleDescription(
                "; ".join(f"{group.title}: {self._text(self._of(group.seconds.whole) or 0)}" for group in groups)
            )
            self.update()

    # Figures.

    def _of(self, cost: SecondCost) -> float | None:
        return {TOKENS: cost.tokens, TIME: cost.ms, CACHE: cost.kv_bytes}[self._amount]

    def _text(self, value: float) -> str:
        if self._amount == TIME:
            return ms_text(value)
        return bytes_text(value) if self._amount == CACHE else number_text(value, 3)

    def _ends(self) -> tuple[float, float]:
        costs = [
            cost for group in self._groups for cost in (group.seconds.whole, *(f.cost for f in group.seconds.frames))
        ]
        values = [value for cost in costs if (value := self._of(cost))]
        return log_bounds(values) or (1.0, 10.0)

    # Geometry.

    def _areas(self) -> Iterator[tuple[str, list[SecondGroup], QRectF]]:
        """A plot for each kind of input that is read."""
        kinds = list(dict.fromkeys(group.seconds.reads for group in self._groups))
        width = (self.width() - _AXIS - _GAP * (len(kinds) - 1) - 4) / max(1, len(kinds))
        for place, kind in enumerate(kinds):
            left = _AXIS + place * (width + _GAP)
            area = QRectF(left, _TITLE, max(1.0, width), max(1.0, self.height() - _TITLE - _FOOT))
            yield kind, [group for group in self._groups if group.seconds.reads == kind], area

    def _y(self, value: float, area: QRectF) -> float:
        low, high = self._ends()
        return area.bottom() - area.height() * log10(value / low) / log10(high / low)

    def places(self) -> list[SecondDot]:
        """Every frame of which it is known how much happened in it, and what it cost."""
        found = []
        for _, groups, area in self._areas():
            most = _most(groups)
            for group in groups:
                for frame in group.seconds.frames:
                    value = self._of(frame.cost)
                    if frame.activity is not None and value:
                        x, y = area.left() + area.width() * frame.activity / most, self._y(value, area)
                        found.append(SecondDot(group, frame, QRectF(x - _DOT / 2, y - _DOT / 2, _DOT, _DOT)))
        return found

    def place_at(self, point: QPoint) -> int | None:
        """The dot at a point, or the nearest one within a dot's width."""
        away = [
            ((dot.box.center() - point.toPointF()).manhattanLength(), number)
            for number, dot in enumerate(self.places())
        ]
        distance, number = min(away, default=(2 * _DOT, None))
        return number if distance < 1.5 * _DOT else None

    # Drawing.

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme = self._themes.theme
        areas = list(self._areas())
        if not areas:
            return
        for place, (_, groups, area) in enumerate(areas):
            self._paint_scale(painter, theme, area, has_words=place == 0)
            self._paint_names(painter, theme, groups, area)
            self._paint_wholes(painter, theme, groups, area)
        for dot in self.places():
            self._paint_dot(painter, theme, dot)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, on=False)
        self.paint_current(painter)

    def _paint_dot(self, painter: QPainter, theme: Theme, dot: SecondDot) -> None:
        color = theme.accent
        painter.setPen(QPen(color, 1.5))
        painter.setBrush(QBrush(theme.alpha(color, 0.5)))
        box = dot.box.adjusted(1, 1, -1, -1)
        if dot.group.letter == "B":
            painter.drawRect(box)
        else:
            painter.drawEllipse(box)

    def _paint_scale(self, painter: QPainter, theme: Theme, area: QRectF, *, has_words: bool) -> None:
        painter.setFont(theme.font(SMALL_PX))
        below = area.bottom()
        for value, _ in log_ticks(*self._ends()):
            y = round(self._y(value, area)) + 0.5
            painter.setPen(QPen(theme.line, 1))
            painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))
            if has_words and y < below - 12:
                painter.setPen(theme.text_dim)
                room = QRectF(0, y - 8, _AXIS - 8, 16)
                right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
                painter.drawText(room, right, self._text(value))
                below = y
        painter.setPen(QPen(theme.text_dim, 1))
        painter.drawLine(QPointF(area.left(), area.bottom() + 0.5), QPointF(area.right(), area.bottom() + 0.5))

    def _paint_names(self, painter: QPainter, theme: Theme, groups: list[SecondGroup], area: QRectF) -> None:
        painter.setFont(theme.font(weight=600))
        painter.setPen(theme.text)
        room = QRectF(area.left(), 0, area.width(), _TITLE - 4)
        title = "  ·  ".join(group.title for group in groups)
        shown = elided_text(painter.fontMetrics(), title, Qt.TextElideMode.ElideRight, room.width())
        painter.drawText(room, Qt.AlignmentFlag.AlignVCenter, shown)
        painter.setFont(theme.font(SMALL_PX))
        painter.setPen(theme.text_dim)
        seconds, most = groups[0].seconds, _most(groups)
        for share, side in ((0.0, Qt.AlignmentFlag.AlignLeft), (1.0, Qt.AlignmentFlag.AlignRight)):
            told = "0" if share == 0 else seconds.activity_text(most)
            painter.drawText(QRectF(area.left(), area.bottom() + 4, area.width(), 15), side, told)
        room = QRectF(area.left(), area.bottom() + 20, area.width(), 15)
        name = elided_text(painter.fontMetrics(), seconds.activity_name, Qt.TextElideMode.ElideRight, room.width())
        painter.drawText(room, Qt.AlignmentFlag.AlignHCenter, name)

    def _paint_wholes(self, painter: QPainter, theme: Theme, groups: list[SecondGroup], area: QRectF) -> None:
        """A second of all frames together, as a line with its figure."""
        for group in groups:
            value = self._of(group.seconds.whole)
            if not value:
                continue
            y, color = self._y(value, area), theme.accent
            painter.setPen(QPen(color, 1.25, Qt.PenStyle.DashLine))
            painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))
            painter.setPen(theme.readable(color, theme.panel))
            painter.setFont(theme.font(SMALL_PX, 600))
            told = f"{group.letter}: {self._text(value)} a second"
            room = QRectF(area.left() + 4, y - 17 if y - 17 > area.top() else y + 2, area.width() - 8, 15)
            painter.drawText(room, Qt.AlignmentFlag.AlignLeft, told)


def _most(groups: Sequence[SecondGroup]) -> float:
    """The right end of the scale of what happened."""
    found = [frame.activity for group in groups for frame in group.seconds.frames if frame.activity is not None]
    return nice_ceiling(max(found, default=0.0) * 1.05)
