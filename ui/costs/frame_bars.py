"""What each frame costs before the first token, as bars on one scale for both models: vision below, prefill above."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPoint, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QLabel, QScrollArea, QSizePolicy, QWidget

from evprof.core.units import bytes_text, ms_text
from evprof.metrics.costs.visual_costs import FrameCost, TokenCost, VisualCosts
from evprof.view.decimate import nice_ceiling
from evprof.view.labels import axis_text
from ui.style.theme import GRID, SMALL_PX, Theme, ThemeHolder
from ui.widgets.boxes import Part, beside, in_role, stacked
from ui.widgets.drawn import PickedPicture
from ui.widgets.label import elided_text
from ui.widgets.panel_parts import scrolling

_TITLE, FOOT, _GAP, _AXIS = 22.0, 40.0, 10.0, 54.0
FOOT_ROWS = (9.0, 23.0)
"""From the axis, beside which stands a number of its own, to the rows below it."""

_MOST_BAR = 46.0

PARTS = (("vision", "vision_ms"), ("prefill", "prefill_ms"), ("decode", "decode_ms"))
"""Stages that a frame's tokens take part in, and where their shares are told; what is not known has no bar."""


@dataclass(frozen=True)
class FrameGroup:
    """One model's frames with what stands above them."""

    title: str
    run_id: int
    role: str
    costs: VisualCosts

    @property
    def entries(self) -> tuple[tuple[FrameCost | None, TokenCost], ...]:
        """Every frame's cost, and last what they share."""
        own = tuple((frame, frame.cost) for frame in self.costs.frames)
        return (*own, (None, self.costs.shared)) if self.costs.shared.tokens else own


@dataclass(frozen=True)
class CostBar:
    """One stage's share of one frame, and its place."""

    group: FrameGroup
    frame: FrameCost | None
    cost: TokenCost
    stage: str
    share_ms: float
    box: QRectF

    @property
    def tip(self) -> str:
        """Whose it is, its tokens and every share."""
        head = f"frame {self.frame.frame + 1}" if self.frame is not None else "shared by all frames"
        if self.frame is not None and self.frame.label:
            head = self.frame.label
        known = [
            f"{stage} {ms_text(value)}" for stage, name in PARTS if (value := getattr(self.cost, name)) is not None
        ]
        tokens = f"{self.cost.tokens:,} token{'s' * (self.cost.tokens != 1)} · {bytes_text(self.cost.kv_bytes)} of KV"
        return f"{head}\n{tokens}\nshares: {', '.join(known) or 'not known'}"


class FrameBars(PickedPicture):
    """Both models' frames side by side, on one scale of time. What is picked is a CostBar."""

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(themes, parent)
        self._groups: tuple[FrameGroup, ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumSize(160, 88)
        self.setAccessibleName("What each frame costs")

    @property
    def groups(self) -> tuple[FrameGroup, ...]:
        """What is shown."""
        return self._groups

    def sizeHint(self) -> QSize:
        return QSize(560, 260)

    def show_groups(self, groups: Sequence[FrameGroup]) -> None:
        """Shows these frames; nothing happens where they are shown already."""
        if tuple(groups) == self._groups:
            return
        self._groups = tuple(groups)
        told = (f"{group.title}: {group.costs.whole.tokens:,} visual tokens" for group in self._groups)
        self.setAccessibleDescription("; ".join(told))
        self.update()

    # Geometry.

    @property
    def top_ms(self) -> float:
        """The highest frame of all, rounded up."""
        totals = (_total(cost) for group in self._groups for _, cost in group.entries)
        return nice_ceiling(1.05 * max(totals, default=0.0) or 1.0)

    def _areas(self) -> Iterator[tuple[FrameGroup, QRectF]]:
        """A stretch of the width for each model, in proportion to how many bars it has."""
        counts = [max(2, len(group.entries)) for group in self._groups]
        room = self.width() - _AXIS - 2 * _GAP * (len(counts) - 1)
        left = _AXIS
        for group, count in zip(self._groups, counts, strict=True):
            width = room * count / sum(counts)
            yield group, QRectF(left, _TITLE, width, max(1.0, self.height() - _TITLE - FOOT))
            left += width + 2 * _GAP

    def places(self) -> list[CostBar]:
        """Every share that is known, with its place."""
        found = []
        for group, area in self._areas():
            slot = area.width() / len(group.entries) if group.entries else 0.0
            width = min(_MOST_BAR, 0.72 * slot)
            for place, (frame, cost) in enumerate(group.entries):
                bottom = area.bottom()
                left = area.left() + place * slot + (slot - width) / 2
                for stage, name in PARTS:
                    share = getattr(cost, name)
                    if share:
                        height = area.height() * share / self.top_ms
                        box = QRectF(left, bottom - height, width, height)
                        found.append(CostBar(group, frame, cost, stage, share, box))
                        bottom -= height
        return found

    def place_at(self, point: QPoint) -> int | None:
        """The share at a point; above a bar, the highest one of its frame."""
        inside = super().place_at(point)
        if inside is not None:
            return inside
        near = [number for number, bar in enumerate(self.places()) if bar.box.left() <= point.x() <= bar.box.right()]
        return near[-1] if near else None

    # Drawing.

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        theme = self._themes.theme
        if not self._groups:
            return
        self._paint_scale(painter, theme)
        for group, area in self._areas():
            self._paint_names(painter, theme, group, area)
        for bar in self.places():
            painter.setPen(Qt.PenStyle.NoPen)
            color = theme.stage(bar.stage)
            painter.setBrush(QBrush(theme.alpha(color, 0.55) if bar.frame is None else color))
            painter.drawRect(bar.box)
        self.paint_current(painter)

    def _paint_scale(self, painter: QPainter, theme: Theme) -> None:
        area = next(area for _, area in self._areas())
        painter.setFont(theme.font(SMALL_PX))
        for share in (0.0, 0.5, 1.0):
            y = round(area.bottom() - share * area.height()) + 0.5
            painter.setPen(QPen(theme.line, 1))
            painter.drawLine(QPointF(_AXIS, y), QPointF(self.width(), y))
            painter.setPen(theme.text_dim)
            text = axis_text(share * self.top_ms)
            room = QRectF(0, y - 8, _AXIS - 8, 16)
            painter.drawText(room, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, text)

    def _paint_names(self, painter: QPainter, theme: Theme, group: FrameGroup, area: QRectF) -> None:
        painter.setFont(theme.font(weight=600))
        painter.setPen(theme.text)
        room = QRectF(area.left(), 0, area.width(), _TITLE - 4)
        title = elided_text(painter.fontMetrics(), group.title, Qt.TextElideMode.ElideRight, room.width())
        painter.drawText(room, Qt.AlignmentFlag.AlignVCenter, title)
        painter.setFont(theme.font(SMALL_PX))
        slot = area.width() / max(1, len(group.entries))
        metrics = painter.fontMetrics()
        widest = max((metrics.horizontalAdvance(f"{cost.tokens:,}") for _, cost in group.entries), default=0)
        if widest + 2 > slot:
            whole = f"{group.costs.whole.tokens:,} tokens"
            told = f"{len(group.costs.frames):,} frames · {whole}"
            told = told if metrics.horizontalAdvance(told) <= area.width() else whole
            painter.setPen(theme.text_dim)
            shown = elided_text(metrics, told, Qt.TextElideMode.ElideRight, area.width())
            painter.drawText(QPointF(area.left(), area.bottom() + FOOT_ROWS[0] + 11), shown)
            return
        if group is self._groups[0]:
            painter.setPen(theme.text_dim)
            for top, word in zip(FOOT_ROWS, ("tokens", "frame"), strict=True):
                room = QRectF(0, area.bottom() + top, _AXIS - 8, 15)
                painter.drawText(room, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, word)
        for place, (frame, cost) in enumerate(group.entries):
            left = area.left() + place * slot
            painter.setPen(theme.text)
            centre = Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignVCenter
            painter.drawText(QRectF(left, area.bottom() + FOOT_ROWS[0], slot, 15), centre, f"{cost.tokens:,}")
            painter.setPen(theme.text_dim)
            name = str(frame.frame + 1) if frame is not None else "shared"
            width = metrics.horizontalAdvance(name)
            # A word that is wider than its bar begins there, and not at the number before it.
            left = min(max(left + (slot - width) / 2, left + 2), self.width() - width)
            painter.drawText(QRectF(left, area.bottom() + FOOT_ROWS[1], width, 15), centre, name)


def _total(cost: TokenCost) -> float:
    return sum(getattr(cost, name) or 0.0 for _, name in PARTS)


SIDE_PX = 360
"""Width of a side in logical px, as long as it leaves the picture as much."""

LEAST_PX = 160, 192
"""Of picture and side in the narrowest window."""


def side_page(*parts: Part) -> QScrollArea:
    """Parts on panel ground."""
    ground = in_role(QWidget(), "panel")
    ground.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
    stacked(*parts, None, on=ground, margins=(2, 0, GRID, 0), spacing=GRID // 2)
    for part in parts:
        if isinstance(part, QLabel):
            part.setMinimumWidth(1)  # a head is cut sooner than the figures below it
    return scrolling(ground)


class PictureAndSide(QWidget):
    """Both beside one another; where there is little room, each has half of it."""

    def __init__(self, picture: QWidget, side: QWidget, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._side = side
        picture.setMinimumWidth(LEAST_PX[0])
        beside((picture, 3), (side, 2), on=self, spacing=2 * GRID)

    def minimumSizeHint(self) -> QSize:
        """What the layout holds now is no least width."""
        return QSize(sum(LEAST_PX) + 2 * GRID, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Gives the side its width."""
        self._side.setMinimumWidth(max(LEAST_PX[1], min(SIDE_PX, self.width() // 2 - GRID)))
        super().resizeEvent(event)
