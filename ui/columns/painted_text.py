"""An answer as it is painted: tokens coloured and shaped by origin.

accepted underlined · bonus dotted · rejected struck through · lossy dashed · target plain: the shape says it, too.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import (
    QColor,
    QFontMetricsF,
    QPainter,
    QPaintEvent,
    QPalette,
    QPen,
    QPolygonF,
    QTextCharFormat,
    QTextLayout,
)
from PySide6.QtWidgets import QAbstractScrollArea, QWidget

from evprof.core.records import DRAFT, ORIGIN_ACCEPTED, ORIGIN_BONUS, ORIGIN_DRAFT, ORIGIN_REJECTED
from ui.columns.answer import AnswerFlow, TokenMark
from ui.columns.chosen_marks import marks_of
from ui.columns.text_blocks import TextBlock, TextBlocks
from ui.columns.text_look import TextLook
from ui.state.selection import TokenRef
from ui.style.theme import ANSWER_PX, Theme, ThemeHolder

TEXT_PX = ANSWER_PX
LINE_PX = 24.0
_CARET_WIDTH = 7.0
_TICK_PX = 4.0
_SHAPE_Y, _CONFIDENCE_Y = 4.0, 6.5
"""Below the base line: what an origin looks like, and how sure the model was."""

_DIFFERENT = 0.16
"""How much of the ground's colour is laid under words that the other answer does not say."""

_SHAPED = (ORIGIN_ACCEPTED, ORIGIN_BONUS, ORIGIN_REJECTED, ORIGIN_DRAFT)


class PaintedText(QAbstractScrollArea):
    """The text that its heir takes in, laid out and painted."""

    def __init__(self, themes: ThemeHolder, look: TextLook | None, parent: QWidget | None) -> None:
        super().__init__(parent)
        ground = QWidget()  # of Qt's own, PySide looks through sixty classes to tell of which it is
        ground.setBackgroundRole(QPalette.ColorRole.Base)
        ground.setAutoFillBackground(True)
        self.setViewport(ground)
        self._themes = themes
        self._look = look or TextLook(parent=self)
        self._flow: AnswerFlow | None = None
        self._texts: list[str] = []
        self._starts: list[int] = []
        self._marked: list[int] = []
        self._blocks = TextBlocks(self._formats)
        self._selected: tuple[int, int] | None = None
        self._has_caret = False
        self._parting: int | None = None
        self._differing: list[tuple[int, int | None]] = []
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        themes.changed.connect(self._restyle)
        self._restyle()

    def _formats(self, start: int, stop: int) -> list[QTextLayout.FormatRange]:
        if self._flow is None:
            return []
        theme, marks = self._themes.theme, self._flow.marks
        found = []
        first, last = max(0, bisect_right(self._starts, start) - 1), bisect_left(self._starts, stop)
        for index in range(first, last):
            # Asked first: of most answers nearly every token is plain.
            color = self._color(marks[index], theme)
            if color is None:
                continue
            begin = max(self._starts[index], start)
            length = min(self._starts[index] + len(self._texts[index]), stop) - begin
            if length <= 0:
                continue
            entry = QTextLayout.FormatRange()
            entry.start = begin - start
            entry.length = length
            style = QTextCharFormat()
            style.setForeground(color)
            entry.format = style
            found.append(entry)
        return found

    def _color(self, mark: TokenMark, theme: Theme) -> QColor | None:
        """Text colour of a mark; None for the plain one. Accepted text stays plain: its line carries the colour."""
        if mark.is_control:
            return theme.text_dim
        if mark.is_rejected:
            # Thrown away: it steps back behind the answer.
            return theme.alpha(theme.origin(ORIGIN_REJECTED), 0.8)
        return theme.origin(ORIGIN_DRAFT) if mark.origin == ORIGIN_DRAFT else None

    def _lay_out(self) -> None:
        width = self.viewport().width() - 2 * self._margin()
        self._blocks.set_geometry(self._themes.theme.font(TEXT_PX), width, LINE_PX)

    def _restyle(self) -> None:
        self._lay_out()
        self.viewport().update()

    def _margin(self) -> float:
        return 0.0

    def _offset(self) -> float:
        return float(self.verticalScrollBar().value())

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme = self._themes.theme
        offset = QPointF(self._margin(), -self._offset())
        visible = self._blocks.blocks_between(self._offset(), self._offset() + self.viewport().height())
        for block in visible:
            self._paint_grounds(painter, block, offset, theme)
            painter.setPen(theme.text)
            block.layout.draw(painter, offset + QPointF(0, block.top), clip=QRectF(self.viewport().rect()))
        for block in visible:
            self._paint_shapes(painter, block, offset, theme)
            if self._look.shows_confidence:
                self._paint_confidence(painter, block, offset, theme)
            if self._look.folds_rejected:
                self._paint_folds(painter, block, offset, theme)
            self._paint_parting(painter, block, offset, theme)
        if self._has_caret:
            self._paint_caret(painter, offset, theme)

    def mark_parting(self, position: int | None) -> None:
        """Marks the token at which this answer parts from the other run's; None: nowhere."""
        if position != self._parting:
            self._parting = position
            self.viewport().update()

    def mark_differing(self, stretches: Sequence[tuple[int, int | None]]) -> None:
        """Gives a ground to the tokens in these stretches of places (see `AnswerDiff.differing`), in order."""
        if list(stretches) != self._differing:
            self._differing = list(stretches)
            self.viewport().update()

    def _differs(self, mark: TokenMark) -> bool:
        place = bisect_right(self._differing, mark.position, key=lambda stretch: stretch[0]) - 1
        if place < 0 or not mark.is_answer:
            return False
        stop = self._differing[place][1]
        return stop is None or mark.position < stop

    @property
    def differing(self) -> list[int]:
        """Indices of the marks that have a ground because the other answer does not say so."""
        marks = [] if self._flow is None or not self._look.marks_differences else self._flow.marks
        return [index for index, mark in enumerate(marks) if self._differs(mark)]

    def _paint_differing(
        self, painter: QPainter, block: TextBlock, offset: QPointF, theme: Theme, places: range
    ) -> None:
        """One ground for neighbours."""
        start: int | None = None
        marks = [] if self._flow is None else self._flow.marks
        for index in places:
            if self._differs(marks[index]):
                start = self._span_of(index)[0] if start is None else start
            elif start is not None:
                self._fill(painter, block, offset, (start, self._starts[index]), theme.alpha(theme.warn, _DIFFERENT))
                start = None
        if start is not None:
            stop = self._span_of(places[-1])[1]
            self._fill(painter, block, offset, (start, stop), theme.alpha(theme.warn, _DIFFERENT))

    def _paint_parting(self, painter: QPainter, block: TextBlock, offset: QPointF, theme: Theme) -> None:
        """A flag before the first different word."""
        if self._flow is None or self._parting is None:
            return
        found = marks_of(self._flow, TokenRef(self._flow.run.run_id, self._parting))
        for left, _, line_top, _ in self._pieces(block, *self._span_of(found[0])) if found else ():
            x, top = round(offset.x() + left) - 1.5, offset.y() + line_top
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.warn)
            painter.drawRect(QRectF(x, top + 2, 1.5, LINE_PX - 4))
            painter.drawPolygon(QPolygonF([QPointF(x, top + 1), QPointF(x + 7, top + 3.5), QPointF(x, top + 6)]))
            return

    def _paint_grounds(self, painter: QPainter, block: TextBlock, offset: QPointF, theme: Theme) -> None:
        if self._selected is not None:
            self._fill(painter, block, offset, self._selected, theme.selection)
        # A range may hold thousands: only those of the block are looked at.
        first = max(0, bisect_right(self._starts, block.start) - 1)
        last = bisect_left(self._starts, block.stop)
        if self._differing and self._look.marks_differences and first < last:
            self._paint_differing(painter, block, offset, theme, range(first, last))
        for index in self._marked[bisect_left(self._marked, first) : bisect_left(self._marked, last)]:
            self._fill(painter, block, offset, self._span_of(index), theme.alpha(theme.accent, 0.32))

    def _span_of(self, index: int) -> tuple[int, int]:
        """Characters of a mark without the space before its word."""
        start = self._starts[index]
        stop = self._starts[index + 1] if index + 1 < len(self._starts) else len(self._blocks.text)
        text = self._blocks.text[start:stop]
        return stop - len(text.lstrip(" ")), stop

    def _fill(self, painter: QPainter, block: TextBlock, offset: QPointF, span: tuple[int, int], color: QColor) -> None:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color)
        for left, right, line_top, _ in self._pieces(block, *span):
            painter.drawRoundedRect(
                QRectF(offset.x() + left, offset.y() + line_top + 2, right - left, LINE_PX - 4).adjusted(-1, 0, 1, 0),
                3,
                3,
            )

    def _pieces(self, block: TextBlock, start: int, stop: int) -> list[tuple[float, float, float, float]]:
        """Left, right, top and base line of each line's part of characters start…stop-1 inside a block, in px."""
        found = []
        first, last = max(start, block.start) - block.start, min(stop, block.stop) - block.start
        if first >= last:
            return []
        for index in range(block.lines):
            line = block.line(index)
            begin, end = line.textStart(), line.textStart() + line.textLength()
            if begin < last and end > first:
                left = _x(line.cursorToX(max(begin, first)))
                right = min(_x(line.cursorToX(min(end, last))), left + 100_000.0)
                # Spaces at the end of a line hang over; shapes stop where the letters do.
                right = min(right, line.naturalTextWidth()) if end <= last else right
                if right > left:
                    found.append((left, right, block.top + index * LINE_PX, block.top + line.y() + line.ascent()))
        return found

    def _paint_shapes(self, painter: QPainter, block: TextBlock, offset: QPointF, theme: Theme) -> None:
        if self._flow is None:
            return
        marks = self._flow.marks
        index = max(0, bisect_right(self._starts, block.start) - 1)
        middle = QFontMetricsF(theme.font(TEXT_PX)).xHeight() / 2
        while index < len(marks) and self._starts[index] < block.stop:
            mark, first = marks[index], index
            index += 1
            if mark.origin not in _SHAPED or mark.is_control:
                continue
            start, stop = self._span_of(first)
            # Neighbours of one origin and one round share a line: what came together looks together.
            while index < len(marks) and (marks[index].origin, marks[index].round_index) == (
                mark.origin,
                mark.round_index,
            ):
                stop = self._span_of(index)[1]
                index += 1
            for left, right, _, base in self._pieces(block, start, stop):
                y = offset.y() + base + (-middle if mark.is_rejected else _SHAPE_Y)
                painter.setPen(pen_of(mark.origin, theme.origin(mark.origin)))
                painter.drawLine(
                    QPointF(offset.x() + left + 0.5, y), QPointF(offset.x() + max(left + 1.5, right - 0.5), y)
                )

    def _paint_confidence(self, painter: QPainter, block: TextBlock, offset: QPointF, theme: Theme) -> None:
        """A thin line as long as the probability of the token, on a faint one as long as its word."""
        flow = self._flow
        if flow is None:
            return
        for index in range(max(0, bisect_right(self._starts, block.start) - 1), len(flow.marks)):
            if self._starts[index] >= block.stop:
                break
            chance = chance_of(flow, flow.marks[index])
            if chance is None:
                continue
            for left, right, _, base in self._pieces(block, *self._span_of(index)):
                # Neighbours keep apart, so that each is seen to end.
                x, y, room = offset.x() + left, offset.y() + base + _CONFIDENCE_Y, max(1.0, right - left - 1.5)
                painter.fillRect(QRectF(x, y, room, 1.5), theme.line)
                painter.fillRect(QRectF(x, y, max(1.0, room * chance), 1.5), theme.text_dim)

    def _paint_folds(self, painter: QPainter, block: TextBlock, offset: QPointF, theme: Theme) -> None:
        """A tick before the word in whose place something else was rejected."""
        marks = [] if self._flow is None else self._flow.marks
        for index in range(max(0, bisect_left(self._starts, block.start) - 1), len(marks)):
            start = self._starts[index]
            if start >= block.stop:
                break
            if not marks[index].is_rejected or start < block.start:
                continue
            for left, _, _, base in self._pieces(block, start, start + 1):
                place = QRectF(offset.x() + left - 0.5, offset.y() + base + 1.0 - _TICK_PX, 1.5, _TICK_PX)
                painter.fillRect(place, theme.origin(ORIGIN_REJECTED))

    def _paint_caret(self, painter: QPainter, offset: QPointF, theme: Theme) -> None:
        x, top = 0.0, 0.0
        if self._blocks.blocks:
            block = self._blocks.blocks[-1]
            line = block.line(block.lines - 1)
            x, top = line.naturalTextWidth() + 2, block.top + (block.lines - 1) * LINE_PX
        painter.fillRect(QRectF(offset.x() + x, offset.y() + top + 4, _CARET_WIDTH, LINE_PX - 8), theme.accent)


def chance_of(flow: AnswerFlow, mark: TokenMark) -> float | None:
    """What the model whose text this is gave a mark's token, of several bytes the least; None where not recorded."""
    role = DRAFT if flow.proposals_only else None
    chances = []
    for token in mark.tokens:
        record = flow.run.alternatives_of(token, role)
        chances.append(None if record is None else record.chance_at_most(token.token_id))
    known = [chance for chance in chances if chance is not None]
    return min(known) if len(known) == len(chances) else None


def pen_of(origin: str, color: QColor) -> QPen:
    """The line of an origin: dotted for bonus, dashed for lossy, thin for rejected, plain otherwise."""
    pen = QPen(color, 1.25 if origin == ORIGIN_REJECTED else 2.0)
    pen.setCapStyle(Qt.PenCapStyle.RoundCap if origin == ORIGIN_BONUS else Qt.PenCapStyle.FlatCap)
    if origin == ORIGIN_BONUS:
        pen.setDashPattern([0.01, 2.0])
    elif origin == ORIGIN_DRAFT:
        pen.setDashPattern([2.5, 1.5])
    return pen


def _x(value: object) -> float:
    """`QTextLine.cursorToX` answers a number, or a pair of number and cursor, depending on the binding's mood."""
    return float(value[0]) if isinstance(value, tuple) else float(value)  # type: ignore[arg-type]  # a number
