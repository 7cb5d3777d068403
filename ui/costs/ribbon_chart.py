"""One sweep as stacked bars: a bar for each amount, its stages one on top of the other, and its interval."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from evprof.core.records import STAGES
from evprof.core.units import count_text, ms_text, number_text
from evprof.metrics.costs.sweeps import Ribbon, SweepAxis, SweepPoint
from evprof.metrics.estimates.estimates import Estimate
from evprof.view.labels import axis_text
from ui.costs.frame_bars import FOOT, FOOT_ROWS
from ui.style.theme import SMALL_PX, Theme, ThemeHolder
from ui.widgets.picked_picture import PickedPicture

_TOP, _AXIS = 8.0, 54.0
_MOST_BAR, _CAP = 44.0, 4.0


@dataclass(frozen=True)
class StackPart:
    """One stage of one bar."""

    axis: SweepAxis
    point: SweepPoint
    stage: str
    found: Estimate
    box: QRectF

    @property
    def tip(self) -> str:
        """The stage, its mean and interval, and the runs behind it."""
        point, count = self.point, len(self.point.run_ids)
        amount = f"{number_text(point.place)} {self.axis.noun if point.place == 1 else self.axis.plural}"
        lines = [f"{self.stage} at {amount}: {ms_text(self.found.value)}, {interval_text(self.found)}"]
        if point.total is not None:
            lines.append(f"all stages: {ms_text(point.total.value)}, {interval_text(point.total)}")
        return "\n".join([*lines, f"{count_text(count, 'run')}; a click shows the first"])


class RibbonChart(PickedPicture):
    """A chart on a scale that those beside it share. What is picked is a StackPart."""

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(themes, parent)
        self._ribbon: Ribbon | None = None
        self._top_ms = 1.0
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(170)
        self.setMinimumWidth(200)

    @property
    def ribbon(self) -> Ribbon | None:
        """What is shown."""
        return self._ribbon

    def sizeHint(self) -> QSize:
        return QSize(360, 170)

    def show_ribbon(self, ribbon: Ribbon, top_ms: float) -> None:
        """Shows a sweep on a scale up to `top_ms`."""
        self._ribbon, self._top_ms = ribbon, top_ms
        self.setAccessibleName(f"{ribbon.sweep.name} over {ribbon.sweep.axis.plural}")
        totals = [(point.place, point.total.value) for point in ribbon.points if point.total is not None]
        told = (f"{ms_text(total)} at {number_text(place)}" for place, total in totals)
        self.setAccessibleDescription(", ".join(told))
        self.update()

    # Geometry.

    @property
    def _area(self) -> QRectF:
        return QRectF(_AXIS, _TOP, max(1.0, self.width() - _AXIS), self.height() - _TOP - FOOT)

    def _y(self, value_ms: float) -> float:
        return self._area.bottom() - self._area.height() * value_ms / self._top_ms

    def _slots(self) -> list[tuple[SweepPoint, QRectF]]:
        """Every bar's place, from the floor to the top."""
        points = self._ribbon.points if self._ribbon is not None else ()
        area = self._area
        slot = area.width() / max(1, len(points))
        width = min(_MOST_BAR, 0.62 * slot)
        return [
            (point, QRectF(area.left() + place * slot + (slot - width) / 2, area.top(), width, area.height()))
            for place, point in enumerate(points)
        ]

    def places(self) -> list[StackPart]:
        """Every stage of every bar, with its place."""
        if self._ribbon is None:
            return []
        axis, found = self._ribbon.sweep.axis, []
        for point, slot in self._slots():
            reached = 0.0
            for stage in STAGES:
                estimate = point.stages.get(stage)
                if estimate is None or estimate.value <= 0:
                    continue
                top, bottom = self._y(reached + estimate.value), self._y(reached)
                box = QRectF(slot.left(), top, slot.width(), bottom - top)
                found.append(StackPart(axis, point, stage, estimate, box))
                reached += estimate.value
        return found

    # Drawing.

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        theme = self._themes.theme
        if self._ribbon is None:
            return
        self._paint_scale(painter, theme)
        painter.setPen(Qt.PenStyle.NoPen)
        for part in self.places():
            painter.fillRect(part.box, theme.stage(part.stage))
        for point, slot in self._slots():
            self._paint_interval(painter, theme, point, slot)
        self.paint_current(painter)

    def _paint_scale(self, painter: QPainter, theme: Theme) -> None:
        painter.setFont(theme.font(SMALL_PX))
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        for share in (0.0, 0.5, 1.0):
            y = round(self._y(share * self._top_ms)) + 0.5
            painter.setPen(QPen(theme.line, 1))
            painter.drawLine(QPointF(_AXIS, y), QPointF(self.width(), y))
            painter.setPen(theme.text_dim)
            text = axis_text(share * self._top_ms)
            painter.drawText(QRectF(0, y - 8, _AXIS - 8, 16), right, text)
        if self._ribbon is not None:
            for top, word in zip(FOOT_ROWS, (self._ribbon.sweep.axis.plural, "runs"), strict=True):
                painter.drawText(QRectF(0, self._area.bottom() + top, _AXIS - 8, 15), right, word)

    def _paint_interval(self, painter: QPainter, theme: Theme, point: SweepPoint, slot: QRectF) -> None:
        centre = slot.center().x()
        if point.total is not None and point.total.interval is not None:
            painter.setPen(QPen(theme.text, 1.25))
            ends = [min(max(0.0, end), self._top_ms) for end in point.total.interval]
            painter.drawLine(QPointF(centre, self._y(ends[0])), QPointF(centre, self._y(ends[1])))
            for end, shown in zip(point.total.interval, ends, strict=True):
                # An end without a bar lies beyond the scale.
                if end == shown:
                    painter.drawLine(QPointF(centre - _CAP, self._y(end)), QPointF(centre + _CAP, self._y(end)))
        painter.setFont(theme.font(SMALL_PX))
        middle = Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignVCenter
        told = ((number_text(point.place), theme.text), (str(len(point.run_ids)), theme.text_dim))
        for top, (text, color) in zip(FOOT_ROWS, told, strict=True):
            painter.setPen(color)
            painter.drawText(QRectF(centre - 30, self._area.bottom() + top, 60, 15), middle, text)


def interval_text(found: Estimate) -> str:
    """`95 % within 12.1 to 12.9 ms`, or why there is no interval."""
    if found.interval is None:
        return f"no interval: {found.note}"
    low, high = found.interval
    return f"95 % within {number_text(low, 3)} to {number_text(high, 3)} ms"
