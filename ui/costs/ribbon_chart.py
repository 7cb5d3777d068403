"""One sweep as stacked bars: a bar for each amount, its stages one on top of the other, and its interval."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from evprof.core.records import STAGES
from evprof.core.units import ms_text, number_text
from evprof.metrics.costs.sweeps import Ribbon, SweepPoint
from evprof.metrics.estimates.estimates import Estimate
from ui.style.theme import SMALL_PX, Theme, ThemeHolder
from ui.widgets.drawn import Drawn

_TOP, _FOOT, _AXIS = 8.0, 34.0, 54.0
_MOST_BAR, _CAP = 44.0, 4.0


@dataclass(frozen=True)
class StackPart:
    """One stage of one bar."""

    point: SweepPoint
    stage: str
    found: Estimate
    box: QRectF


class RibbonChart(Drawn):
    """As high as its place; `top_ms` is the scale's upper end, so that charts beside each other share it.

    Signals:
        picked(object): a bar was clicked; its SweepPoint.
    """

    picked = Signal(object)

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(themes, parent)
        self._ribbon: Ribbon | None = None
        self._top_ms = 1.0
        self._hovered: StackPart | None = None
        self.setMouseTracking(True)
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
        self._ribbon, self._top_ms, self._hovered = ribbon, top_ms, None
        self.setAccessibleName(f"{ribbon.sweep.name} over {ribbon.sweep.axis.plural}")
        totals = [(point.place, point.total.value) for point in ribbon.points if point.total is not None]
        told = (f"{ms_text(total)} at {number_text(place)}" for place, total in totals)
        self.setAccessibleDescription(", ".join(told))
        self.update()

    # Geometry.

    @property
    def _area(self) -> QRectF:
        return QRectF(_AXIS, _TOP, max(1.0, self.width() - _AXIS), self.height() - _TOP - _FOOT)

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

    def parts(self) -> list[StackPart]:
        """Every stage of every bar, with its place."""
        found = []
        for point, slot in self._slots():
            reached = 0.0
            for stage in STAGES:
                estimate = point.stages.get(stage)
                if estimate is None or estimate.value <= 0:
                    continue
                top, bottom = self._y(reached + estimate.value), self._y(reached)
                found.append(StackPart(point, stage, estimate, QRectF(slot.left(), top, slot.width(), bottom - top)))
                reached += estimate.value
        return found

    def part_at(self, point: QPoint) -> StackPart | None:
        """The stage under a point."""
        return next((part for part in self.parts() if part.box.contains(point.toPointF())), None)

    # Drawing.

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        theme = self._themes.theme
        if self._ribbon is None:
            return
        self._paint_scale(painter, theme)
        painter.setPen(Qt.PenStyle.NoPen)
        for part in self.parts():
            painter.fillRect(part.box, theme.stage(part.stage))
        for point, slot in self._slots():
            self._paint_interval(painter, theme, point, slot)
        if self._hovered is not None:
            painter.setPen(QPen(theme.text, 1))
            painter.drawRect(self._hovered.box.adjusted(0.5, 0.5, -0.5, -0.5))

    def _paint_scale(self, painter: QPainter, theme: Theme) -> None:
        painter.setFont(theme.font(SMALL_PX))
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        for share in (0.0, 0.5, 1.0):
            y = round(self._y(share * self._top_ms)) + 0.5
            painter.setPen(QPen(theme.line, 1))
            painter.drawLine(QPointF(_AXIS, y), QPointF(self.width(), y))
            painter.setPen(theme.text_dim)
            text = f"{share * self._top_ms:g} ms" if share else "0"
            painter.drawText(QRectF(0, y - 8, _AXIS - 8, 16), right, text)
        if self._ribbon is not None:
            for top, word in ((3, self._ribbon.sweep.axis.plural), (17, "runs")):
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
        for top, text, color in (
            (3, number_text(point.place), theme.text),
            (17, str(len(point.run_ids)), theme.text_dim),
        ):
            painter.setPen(color)
            painter.drawText(QRectF(centre - 30, self._area.bottom() + top, 60, 15), middle, text)

    # Mouse.

    def tip_at(self, point: QPoint) -> str:
        """The stage, its mean and interval, and the runs behind it."""
        part = self.part_at(point)
        if part is None or self._ribbon is None:
            return ""
        axis, count = self._ribbon.sweep.axis, len(part.point.run_ids)
        amount = f"{number_text(part.point.place)} {axis.noun if part.point.place == 1 else axis.plural}"
        runs = f"{count} run{'s' * (count != 1)}"
        lines = [f"{part.stage} at {amount}: {ms_text(part.found.value)}, {interval_text(part.found)}"]
        if part.point.total is not None:
            lines.append(f"all stages: {ms_text(part.point.total.value)}, {interval_text(part.point.total)}")
        return "\n".join([*lines, f"{runs}; a click shows the first"])

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """The stage under the pointer stands out."""
        part = self.part_at(event.position().toPoint())
        if part != self._hovered:
            self._hovered = part
            self.setCursor(Qt.CursorShape.PointingHandCursor if part else Qt.CursorShape.ArrowCursor)
            self.update()

    def leaveEvent(self, event: QEvent) -> None:
        """Nothing stands out any more."""
        self._hovered = None
        self.update()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Tells which bar was clicked."""
        part = self.part_at(event.position().toPoint())
        if part is not None and event.button() == Qt.MouseButton.LeftButton:
            self.picked.emit(part.point)


def interval_text(found: Estimate) -> str:
    """`95 % within 12.1 to 12.9 ms`, or why there is no interval."""
    if found.interval is None:
        return f"no interval: {found.note}"
    low, high = found.interval
    return f"95 % within {number_text(low, 3)} to {number_text(high, 3)} ms"
