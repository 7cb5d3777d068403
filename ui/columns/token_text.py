"""The streaming answer: tokens coloured and shaped by origin, to hover, click, select and copy.

accepted underlined · bonus dotted · rejected struck through · lossy dashed · target plain: the shape says it, too.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np
from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, Qt
from PySide6.QtGui import (
    QColor,
    QFontMetricsF,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPolygonF,
    QResizeEvent,
    QTextCharFormat,
    QTextLayout,
)
from PySide6.QtWidgets import QAbstractScrollArea, QWidget

from evprof.core.records import DRAFT, ORIGIN_ACCEPTED, ORIGIN_BONUS, ORIGIN_DRAFT, ORIGIN_REJECTED
from evprof.core.units import ms_from_ns, ms_text
from evprof.view.columns import ShownModel
from evprof.view.token_places import round_of_span
from ui.columns.answer import AnswerFlow, TokenMark
from ui.columns.text_blocks import TextBlock, TextBlocks
from ui.columns.text_look import TextLook
from ui.run_facts.odds import chance_text
from ui.state.selection import Chosen, RoundRef, Selection, TimeRange, TokenRef
from ui.style.theme import ANSWER_PX, Theme, ThemeHolder
from ui.widgets.drawn import show_tip
from ui.widgets.pace import Pace

TEXT_PX = ANSWER_PX
LINE_PX = 24.0
_CARET_WIDTH = 7.0
_TICK_PX = 4.0
_SHAPE_Y, _CONFIDENCE_Y = 4.0, 6.5
"""Below the base line: what an origin looks like, and how sure the model was."""

MANY_TOKENS = 200
"""Of a longer answer so many tokens are laid out at a time, and the window is free for a moment in between."""

_PAUSE_MS = 1
_DIFFERENT = 0.16
"""How much of the ground's colour is laid under words that the other answer does not say."""

_SHAPED = (ORIGIN_ACCEPTED, ORIGIN_BONUS, ORIGIN_REJECTED, ORIGIN_DRAFT)


class TokenText(QAbstractScrollArea):
    """One model's text, following its run. Scrolls along while text arrives, until the person scrolls away."""

    def __init__(
        self,
        selection: Selection,
        themes: ThemeHolder,
        look: TextLook | None = None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._selection = selection
        self._themes = themes
        self._look = look or TextLook(parent=self)
        self._flow: AnswerFlow | None = None
        self._texts: list[str] = []
        self._starts: list[int] = []
        self._marked: list[int] = []
        self._known_odds = 0
        self._blocks = TextBlocks(self._formats)
        self._selected: tuple[int, int] | None = None
        self._anchor: int | None = None
        self._was_dragged = False
        self._is_following = True
        self._has_caret = False
        self._rest = Pace(_PAUSE_MS, self._take_more, self, answers=True)
        self._parting: int | None = None
        self._differing: list[tuple[int, int | None]] = []
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName("Generated text")
        self.viewport().setMouseTracking(True)
        self.viewport().setCursor(Qt.CursorShape.IBeamCursor)
        self.verticalScrollBar().valueChanged.connect(self._note_scroll)
        themes.changed.connect(self._restyle)
        self._look.changed.connect(self._show_all)
        selection.chosen_changed.connect(self._show_chosen)
        self._restyle()

    @property
    def flow(self) -> AnswerFlow | None:
        """The marks that are shown."""
        return self._flow

    @property
    def marked(self) -> list[int]:
        """Indices of the marks that belong to what is selected."""
        return list(self._marked)

    @property
    def shown_text(self) -> str:
        """Everything that is to be read, rejected tokens included unless they are folded."""
        return self._blocks.text

    def show_column(self, column: ShownModel | None) -> None:
        """Shows the text of one model of a run: its answer, or what it proposed to the answering model."""
        run = column.run if column else None
        proposals = column is not None and not column.is_answer
        if self._flow is None and run is None:
            return
        if self._flow is not None and run is self._flow.run and proposals == self._flow.proposals_only:
            self.refresh()
            return
        self._flow = None if run is None else AnswerFlow(run, proposals_only=proposals)
        self._is_following = True
        if self._flow is not None:
            self._take_in(self._flow)
        self._has_caret = self._flow is not None and not self._flow.run.info.is_over
        self._show_all()

    def _show_all(self) -> None:
        """Lays out everything, as the look has it."""
        self._selected = None
        self._put(0)

    def refresh(self) -> None:
        """Takes in what the run has gained; repaints only when something changed."""
        if not self._rest.isActive():
            self._take_more()

    def _take_more(self) -> None:
        if self._flow is None:
            return
        changed = self._take_in(self._flow)
        has_caret = not self._flow.run.info.is_over
        odds = self._flow.run.count("alternatives") if self._look.shows_confidence else 0
        if changed is not None:
            self._put(changed)
        if has_caret != self._has_caret or odds != self._known_odds:
            self._has_caret, self._known_odds = has_caret, odds
            self.viewport().update()

    def _take_in(self, flow: AnswerFlow) -> int | None:
        """Takes in what is new, of much a part, the rest a moment later; the first mark that changed."""
        changed = flow.update(MANY_TOKENS)
        self._rest.begin()
        if flow.has_more:
            self._rest.note()
        return changed

    def _put(self, changed: int) -> None:
        """Shows the marks from the index `changed` on anew."""
        marks = self._flow.marks if self._flow is not None else []
        start = self._starts[changed] if changed < len(self._starts) else len(self._blocks.text)
        start = start if changed else 0
        del self._starts[changed:], self._texts[changed:]
        place = start
        for mark in marks[changed:]:
            text = "" if mark.is_rejected and self._look.folds_rejected else _shown(mark)
            # The space before the first word is no text, also where what stood before it is folded away.
            text = text if place else text.removeprefix(" ")
            self._texts.append(text)
            self._starts.append(place)
            place += len(text)
        self._blocks.change(start, "".join(self._texts[changed:]))
        if self._selected is not None and self._selected[1] > start:
            self._selected = None
        self._marked = self._belonging(self._selection.chosen)
        self._note_extent()
        self.viewport().update()

    def complete(self) -> None:
        """Takes in everything at once: who copies or looks for a token wants all of the answer."""
        while self._flow is not None and self._flow.has_more:
            self._take_more()

    def plain_text(self) -> str:
        """The selected text, or the whole answer: without rejected tokens and control pieces."""
        self.complete()
        if self._flow is None:
            return ""
        if self._selected is None:
            return self._flow.plain_text()
        start, stop = self._selected
        parts = []
        for mark, text, begin in zip(self._flow.marks, self._texts, self._starts, strict=True):
            if mark.is_answer and begin < stop and begin + len(text) > start:
                parts.append(text[max(0, start - begin) : stop - begin])
        return "".join(parts)

    def mark_at(self, point: QPoint) -> TokenMark | None:
        """The mark under a point of the viewport."""
        if self._flow is None:
            return None
        at = self._blocks.character_at(point.x() - self._margin(), point.y() + self._offset())
        index = -1 if at is None else bisect_right(self._starts, at) - 1
        return self._flow.marks[index] if 0 <= index < len(self._flow.marks) else None

    def describe(self, mark: TokenMark) -> str:
        """What the tool tip says of a mark: piece, id, origin, round, time and latency."""
        run = self._flow.run if self._flow else None
        first = mark.tokens[0]
        ids = " ".join(str(token.token_id) for token in mark.tokens if token.known_id is not None)
        lines = [f"{mark.text.strip() or first.piece!r}" + (f"   id {ids}" if ids else "")]
        known = "lossy: need not be the target's own" if mark.origin == ORIGIN_DRAFT else mark.origin
        origin = known if mark.round_index < 0 else f"{known} in round {mark.round_index + 1}"
        lines.append(f"position {mark.position} · {origin}")
        zero = run.info.start_ns if run else None
        times = [] if zero is None else [f"at {ms_text(ms_from_ns(first.t_ns - zero))}"]
        if mark.latency_ns is not None:
            times.append(f"{ms_text(ms_from_ns(mark.latency_ns))} after the token before")
        if times:
            lines.append(" · ".join(times))
        chance = None if self._flow is None else chance_of(self._flow, mark)
        if chance is not None:
            lines.append(f"probability {chance_text(chance)}")
        return "\n".join(lines)

    # Qt's own

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

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._lay_out()
        self._note_extent()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._anchor = self._gap_at(event.position())
            self._was_dragged = False

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._anchor is None:
            return
        here = self._gap_at(event.position())
        if here != self._anchor:
            self._was_dragged = True
        self._selected = (min(here, self._anchor), max(here, self._anchor)) if self._was_dragged else None
        self.viewport().update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if event.button() != Qt.MouseButton.LeftButton or self._anchor is None:
            return
        self._anchor = None
        if self._was_dragged:
            return
        self._selected = None
        mark = self.mark_at(event.position().toPoint())
        run = self._flow.run if self._flow else None
        self._selection.select(None if mark is None or run is None else _chosen_of(run.run_id, mark))
        self.viewport().update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        self.complete()
        if event.matches(QKeySequence.StandardKey.Copy):
            QGuiApplication.clipboard().setText(self.plain_text())
        elif event.matches(QKeySequence.StandardKey.SelectAll):
            self._selected = (0, len(self._blocks.text))
            self.viewport().update()
        elif event.key() in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            self._step(-1 if event.key() == Qt.Key.Key_Left else 1)
        else:
            super().keyPressEvent(event)

    def viewportEvent(self, event: QEvent) -> bool:
        return show_tip(event, self.viewport(), self._tip) or super().viewportEvent(event)

    def _tip(self, point: QPoint) -> str:
        mark = self.mark_at(point)
        return "" if mark is None else self.describe(mark)

    # Layout and colours

    def _formats(self, start: int, stop: int) -> list[QTextLayout.FormatRange]:
        if self._flow is None:
            return []
        theme = self._themes.theme
        found = []
        for index in range(max(0, bisect_right(self._starts, start) - 1), len(self._starts)):
            begin = self._starts[index]
            if begin >= stop:
                break
            mark = self._flow.marks[index]
            color = self._color(mark, theme)
            length = min(begin + len(self._texts[index]), stop) - max(begin, start)
            if color is None or length <= 0:
                continue
            entry = QTextLayout.FormatRange()
            entry.start = max(begin, start) - start
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

    def _note_extent(self) -> None:
        bar = self.verticalScrollBar()
        height = self.viewport().height()
        follows = self._is_following
        # The scroll bar's place is always kept free, so that its coming and going never wraps the text anew.
        bar.setPageStep(height)
        bar.setSingleStep(int(LINE_PX))
        bar.setRange(0, max(0, round(self._blocks.height) - height))
        if follows and self._flow is not None and not self._flow.run.info.is_over:
            bar.setValue(bar.maximum())
        self._is_following = follows

    def _note_scroll(self, value: int) -> None:
        self._is_following = value >= self.verticalScrollBar().maximum() - 2
        self.viewport().update()

    def _gap_at(self, point: QPointF) -> int:
        return self._blocks.character_at(point.x() - self._margin(), point.y() + self._offset(), between=True) or 0

    # Selection

    def _step(self, by: int) -> None:
        flow = self._flow
        if flow is None or not flow.marks:
            return
        answer = [mark.position for mark in flow.marks if not mark.is_rejected]
        chosen, here = self._selection.chosen, None
        if isinstance(chosen, TokenRef | RoundRef) and chosen.run_id == flow.run.run_id:
            here = chosen.position if isinstance(chosen, TokenRef) else chosen.drafted
        if here is None or not answer:
            target = answer[0] if answer else 0
        else:
            target = answer[min(max(bisect_right(answer, here) - 1 + by, 0), len(answer) - 1)]
        self._selection.select(TokenRef(flow.run.run_id, target))

    def _show_chosen(self, chosen: Chosen | None) -> None:
        if isinstance(chosen, TokenRef | RoundRef):
            self.complete()
        self._marked = self._belonging(chosen)
        if self._marked and not isinstance(chosen, TimeRange):
            start = self._starts[self._marked[0]]
            top, bar = self._blocks.top_of(start), self.verticalScrollBar()
            if not bar.value() <= top <= bar.value() + self.viewport().height() - LINE_PX:
                bar.setValue(round(top - self.viewport().height() / 3))
        self.viewport().update()

    def _belonging(self, chosen: Chosen | None) -> list[int]:
        """Indices of the marks of this run that belong to what is selected."""
        flow = self._flow
        if flow is None or chosen is None:
            return []
        run = flow.run
        if isinstance(chosen, TimeRange):
            return _within(flow, chosen)
        if chosen.run_id != run.run_id:
            return []
        if isinstance(chosen, TokenRef):
            return self._at(flow, chosen.position)
        if isinstance(chosen, RoundRef):
            return _of_round(flow, chosen.round_index, chosen.drafted)
        span = run.span(chosen.span_id)
        number = None if span is None else round_of_span(run, span)
        return [] if number is None else _of_round(flow, number)

    def _at(self, flow: AnswerFlow, position: int) -> list[int]:
        """The token of the answer there; where only proposals stand, what was proposed for it in its round instead."""
        here = [
            (index, mark)
            for index, mark in enumerate(flow.marks)
            if any(record.position == position for record in mark.tokens)
        ]
        standing = [index for index, mark in here if not mark.is_rejected]
        if standing or not flow.proposals_only:
            return standing[:1]
        emitted = next((token for token in flow.run.tokens if token.position == position), None)
        return [index for index, mark in here if emitted is None or mark.round_index == emitted.round_index]

    # Painting

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
        found = self._belonging(TokenRef(self._flow.run.run_id, self._parting))
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
                painter.setPen(_pen(mark.origin, theme.origin(mark.origin)))
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


def _chosen_of(run_id: int, mark: TokenMark) -> Chosen:
    """What a click on a mark selects: the token, or the round that rejected it, whose place in the answer is
    another's."""
    if mark.is_rejected and mark.round_index >= 0:
        return RoundRef(run_id, mark.round_index, mark.position)
    return TokenRef(run_id, mark.position)


def _within(flow: AnswerFlow, chosen: TimeRange) -> list[int]:
    """Indices of the marks that came in a stretch of time; of most imported runs no times of tokens are known."""
    zero = flow.run.info.start_ns
    if zero is None or not flow.run.info.has_token_times:
        return []
    times = np.array([mark.tokens[0].t_ns for mark in flow.marks], dtype=np.int64) - zero
    found: list[int] = np.flatnonzero((times >= chosen.start_ns) & (times <= chosen.end_ns)).tolist()
    return found


def _of_round(flow: AnswerFlow, number: int, drafted: int | None = None) -> list[int]:
    """Indices of the marks of a round, or of these only what was drafted for a place and rejected."""
    of_round = [index for index, mark in enumerate(flow.marks) if mark.round_index == number]
    if drafted is None:
        return of_round
    return [index for index in of_round if _is_drafted_for(flow.marks[index], drafted)] or of_round


def _is_drafted_for(mark: TokenMark, position: int) -> bool:
    return mark.is_rejected and any(token.position == position for token in mark.tokens)


def _shown(mark: TokenMark) -> str:
    """The characters that stand for a mark on screen; control pieces get a space before them."""
    return f" {mark.tokens[0].piece}" if mark.is_control else mark.text


def _pen(origin: str, color: QColor) -> QPen:
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
