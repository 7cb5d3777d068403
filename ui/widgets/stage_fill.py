"""The ground of a stage's bar: its colour, or stripes of several where one interval covers several stages."""

from __future__ import annotations

from math import sqrt

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QBrush, QColor, QGradient, QLinearGradient, QPainter

from evprof.view.labels import stages_in
from ui.style.theme import Theme

STRIPE_PX = 12.0
"""Width of one stripe along the bar."""

_EDGE = 0.35
"""Half the px over which one stripe turns into the next: a hard edge at 45° looks torn."""


def is_striped(name: str) -> bool:
    """Whether an interval of that name covers several stages."""
    return len(stages_in(name)) > 1


def stage_brush(theme: Theme, name: str, box: QRectF, opacity: float = 1.0) -> QBrush:
    """What fills `box` for an interval of that name: one colour, or stripes at 45° that begin at its left edge."""
    names = stages_in(name) or (name,)
    colors = [theme.alpha(theme.stage(part), opacity) if opacity < 1 else theme.stage(part) for part in names]
    if len(colors) == 1:
        return QBrush(colors[0])
    # Narrow bars show every colour once.
    width = min(STRIPE_PX, max(1.0, box.width() / len(colors)))
    return QBrush(_stripes(colors, box.topLeft(), width))


def _stripes(colors: list[QColor], origin: QPointF, width: float) -> QLinearGradient:
    period = width * len(colors)
    # Along the normal of 45° stripes one period is shorter than along the bar.
    step = period / 2
    gradient = QLinearGradient(origin, origin + QPointF(step, step))
    gradient.setSpread(QGradient.Spread.RepeatSpread)
    soft = _EDGE / (period / sqrt(2))
    for place, color in enumerate(colors):
        gradient.setColorAt(min(1.0, place / len(colors) + soft), color)
        gradient.setColorAt(max(0.0, (place + 1) / len(colors) - soft), color)
    return gradient


def paint_swatch(painter: QPainter, theme: Theme, name: str, box: QRectF) -> None:
    """A stage's mark beside a name: one colour, or those of all stages it covers, one above the other."""
    names = stages_in(name) or (name,)
    height = box.height() / len(names)
    for place, part in enumerate(names):
        painter.fillRect(QRectF(box.left(), box.top() + place * height, box.width(), height), theme.stage(part))


def paint_label_ground(painter: QPainter, theme: Theme, box: QRectF) -> None:
    """A plate under words on stripes, where neither dark nor light ink would be read everywhere."""
    painter.save()
    painter.setPen(QColor(0, 0, 0, 0))
    painter.setBrush(theme.alpha(theme.panel, 0.88))
    painter.drawRoundedRect(box, 3, 3)
    painter.restore()
