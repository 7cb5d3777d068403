"""Where a difference comes from: one stacked bar per column, each stage's part to the right or left of the baseline."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, log10

from PySide6.QtCore import QPoint, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QFontMetricsF, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from evprof.core.units import ms_text
from evprof.view.labels import short_stage_titles
from ui.comparison.sheet import Contribution, DifferencePart
from ui.comparison.table import NAME_PX
from ui.style.theme import GRID, SMALL_PX, Theme, ThemeHolder
from ui.widgets.drawn import Drawn
from ui.widgets.elided import elided_text
from ui.widgets.stage_fill import is_striped, paint_label_ground, stage_brush

ROW, AXIS = 42, 20
BAR = 20.0
_PAD = 10.0
_TOTAL_PX = 84.0


@dataclass(frozen=True)
class Piece:
    """One part's place."""

    part: DifferencePart
    box: QRectF


class ContributionBars(Drawn):
    """As high as its rows; all of them on one scale."""

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(themes, parent)
        self._rows: tuple[Contribution, ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Contribution of each stage to the difference")

    @property
    def rows(self) -> tuple[Contribution, ...]:
        """What is shown."""
        return self._rows

    def show_rows(self, rows: tuple[Contribution, ...]) -> None:
        """Shows the columns' differences from the baseline."""
        self._rows = rows
        self.setAccessibleDescription("\n".join(f"{row.title}: {row.total}" for row in rows))
        self.setFixedHeight(self.sizeHint().height())
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(480, AXIS + ROW * len(self._rows))

    @property
    def _area(self) -> QRectF:
        return QRectF(NAME_PX, AXIS, max(1.0, self.width() - NAME_PX - _TOTAL_PX - _PAD), ROW * len(self._rows))

    def scale(self) -> tuple[float, float]:
        """Where the baseline lies in px, and px per ms."""
        below = max((sum(-part.delta_ms for part in row.parts if part.delta_ms < 0) for row in self._rows), default=0)
        above = max((sum(part.delta_ms for part in row.parts if part.delta_ms > 0) for row in self._rows), default=0)
        area = self._area
        whole = below + above
        per_ms = area.width() / whole if whole > 0 else 0.0
        return area.left() + below * per_ms, per_ms

    def pieces(self, index: int) -> list[Piece]:
        """The parts of one row: what takes longer to the right, what takes less to the left."""
        zero, per_ms = self.scale()
        top = AXIS + index * ROW + 4
        right = left = zero
        found = []
        for part in self._rows[index].parts:
            width = abs(part.delta_ms) * per_ms
            if part.delta_ms >= 0:
                found.append(Piece(part, QRectF(right, top, width, BAR)))
                right += width
            else:
                left -= width
                found.append(Piece(part, QRectF(left, top, width, BAR)))
        return found

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme = self._themes.theme
        painter.fillRect(self.rect(), theme.panel)
        if not self._rows:
            return
        self._paint_axis(painter, theme)
        for index, row in enumerate(self._rows):
            self._paint_row(painter, theme, index, row)

    def _paint_axis(self, painter: QPainter, theme: Theme) -> None:
        zero, per_ms = self.scale()
        area = self._area
        painter.setFont(theme.font(SMALL_PX))
        metrics = QFontMetricsF(painter.font())
        if per_ms > 0:
            step = _nice(90 / per_ms)
            first, last = int((area.left() - zero) / per_ms / step), int((area.right() - zero) / per_ms / step)
            for count in range(first, last + 1):
                x = round(zero + count * step * per_ms) + 0.5
                painter.setPen(QPen(theme.alpha(theme.line, 0.8), 1))
                painter.drawLine(int(x), AXIS, int(x), self.height())
                sign = "+" if count > 0 else "−"
                text = "baseline" if not count else f"{sign}{ms_text(abs(count) * step)}"
                width = metrics.horizontalAdvance(text)
                left = min(max(area.left(), x - width / 2), area.right() + _TOTAL_PX - width)
                painter.setPen(theme.text_dim)
                painter.drawText(QRectF(left, 0, width + 2, AXIS - 4), Qt.AlignmentFlag.AlignVCenter, text)
        painter.fillRect(QRectF(zero - 0.5, AXIS, 1, self.height() - AXIS), theme.text_dim)

    def _paint_row(self, painter: QPainter, theme: Theme, index: int, row: Contribution) -> None:
        top = AXIS + index * ROW
        pieces = self.pieces(index)
        for piece in pieces:
            self._paint_piece(painter, theme, piece)
        painter.setFont(theme.font())
        painter.setPen(theme.text)
        first, _, second = row.title.partition(" · ")
        for text, above, color in ((first, 4, theme.text), (second, 22, theme.text_dim)):
            painter.setPen(color)
            name = QRectF(_PAD, top + above, NAME_PX - _PAD - GRID, BAR)
            painter.drawText(name, Qt.AlignmentFlag.AlignVCenter, _elided(painter, text, name.width()))
            painter.setFont(theme.font(10.5))
        painter.setPen(theme.text)
        zero, _ = self.scale()
        end = max([zero, *(piece.box.right() for piece in pieces)])
        painter.setFont(theme.font(weight=500))
        place = QRectF(end + 6, top + 4, self.width() - end - 6, BAR)
        painter.drawText(place, Qt.AlignmentFlag.AlignVCenter, _elided(painter, row.total, place.width()))

    def _paint_piece(self, painter: QPainter, theme: Theme, piece: Piece) -> None:
        part, box = piece.part, piece.box
        shown = box.adjusted(0.5, 0, -0.5, 0) if box.width() > 3 else box
        if part.is_stage:
            painter.fillRect(shown, stage_brush(theme, part.name, shown))
        else:
            painter.fillRect(shown, theme.alpha(theme.text_dim, 0.35))
            painter.fillRect(shown, QBrush(theme.alpha(theme.text_dim, 0.8), Qt.BrushStyle.BDiagPattern))
        painter.setFont(theme.font(10.5, 600))
        metrics = QFontMetricsF(painter.font())
        titles = short_stage_titles(part.name)
        wordings = [f"{titles[0]} {'+' if part.delta_ms > 0 else '−'}{ms_text(abs(part.delta_ms))}", titles[0]]
        text = next((wording for wording in wordings if metrics.horizontalAdvance(wording) <= box.width() - 12), "")
        if not text:
            return
        place = QRectF(box.left() + 6, box.top(), box.width() - 8, box.height())
        is_plain = part.is_stage and not is_striped(part.name)
        if not is_plain:
            width = metrics.horizontalAdvance(text)
            paint_label_ground(painter, theme, QRectF(box.left() + 3, box.top() + 2, width + 6, box.height() - 4))
        painter.setPen(theme.ink(theme.stage(part.name)) if is_plain else theme.text)
        painter.drawText(place, Qt.AlignmentFlag.AlignVCenter, text)

    def piece_at(self, point: QPoint) -> Piece | None:
        """The part under a point; thin ones can be hit a hair beside them."""
        index = (point.y() - AXIS) // ROW
        if not 0 <= index < len(self._rows):
            return None
        near = [piece for piece in self.pieces(index) if piece.box.adjusted(-2, -3, 2, 3).contains(point.toPointF())]
        return min(near, key=lambda piece: abs(piece.box.center().x() - point.x()), default=None)

    def tip_at(self, point: QPoint) -> str:
        """The part's tip."""
        piece = self.piece_at(point)
        return "" if piece is None else piece.part.tip


def legend(rows: tuple[Contribution, ...]) -> str:
    """What the parts without a stage's colour mean, where there are any."""
    meanings = {
        "unattributed": "unattributed: wall time that no stage covers",
        "overlap": "overlap: time that several stages cover at once",
        "remainder": "remainder: what only one side measured, so that it cannot be divided",
    }
    found = dict.fromkeys(part.name for row in rows for part in row.parts if part.name in meanings)
    return "; ".join(meanings[name] for name in found).capitalize()


def _elided(painter: QPainter, text: str, room: float) -> str:
    return elided_text(QFontMetricsF(painter.font()), text, Qt.TextElideMode.ElideMiddle, room)


def _nice(wanted: float) -> float:
    """The next of 1, 2, 5 times a power of ten."""
    power = 10.0 ** floor(log10(wanted))
    steps = [step * power for step in (1.0, 2.0, 5.0, 10.0)]
    return float(next(step for step in steps if step >= wanted))
