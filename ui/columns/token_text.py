"""The streaming answer: a rich text whose tokens are coloured by origin, and can be clicked, selected and copied.

accepted underlined, bonus dotted, rejected struck through, lossy dashed, target plain.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from PySide6.QtCore import QEvent, QMimeData, QPoint, QPointF, QRectF, Qt
from PySide6.QtGui import (
    QColor,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextOption,
)
from PySide6.QtWidgets import QTextEdit

from evprof.core.records import DRAFT, ORIGIN_ACCEPTED, ORIGIN_BONUS, ORIGIN_DRAFT, ORIGIN_REJECTED
from evprof.core.texts import plain
from evprof.core.units import ms_from_ns, ms_text
from evprof.view.columns import ShownModel
from ui.columns.answer import AnswerFlow, TokenMark, chosen_of, marks_of
from ui.run_facts.run_text import chance_text
from ui.state.selection import Chosen, RoundRef, Selection, TimeRange, TokenRef
from ui.style.theme import ANSWER_PX, Theme, ThemeHolder
from ui.widgets.drawn import show_tip

LINE_PX = 24.0
_DIFFERENT, _CHOSEN = 0.16, 0.32
"""Opacity of the background of words that the other answer lacks, and of the selected tokens."""

_CUT = " … (copying takes all of the answer)"

_UNDERLINES = {
    ORIGIN_ACCEPTED: QTextCharFormat.UnderlineStyle.SingleUnderline,
    ORIGIN_BONUS: QTextCharFormat.UnderlineStyle.DotLine,
    ORIGIN_DRAFT: QTextCharFormat.UnderlineStyle.DashUnderline,
}


class TokenText(QTextEdit):
    """The text of one model. It scrolls along while text arrives, until the user scrolls away."""

    def __init__(self, selection: Selection, themes: ThemeHolder) -> None:
        super().__init__()
        self._selection = selection
        self._themes = themes
        self.flow: AnswerFlow | None = None
        self._starts: list[int] = []
        self._end = 0
        self.marked: list[int] = []
        self._differing: list[tuple[int, int | None]] = []
        self._has_caret = False
        self.setReadOnly(True)
        self.setUndoRedoEnabled(False)
        self.setAcceptRichText(False)
        self.setProperty("role", "answer")
        self.setAccessibleName("Generated text")
        self.setFrameShape(QTextEdit.Shape.NoFrame)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.document().setDocumentMargin(0)
        themes.changed.connect(self._show_all)
        selection.chosen_changed.connect(self._show_chosen)

    @property
    def differing(self) -> list[int]:
        """Indices of the marks with the background of a difference."""
        marks = [] if self.flow is None else self.flow.marks
        return [index for index, mark in enumerate(marks) if self._differs(mark)]

    def show_column(self, column: ShownModel | None) -> None:
        """Shows the text of one model of a run: its answer, or its proposals to the answering model."""
        run = None if column is None else column.run
        proposals = column is not None and not column.is_answer
        if self.flow is None and run is None:
            self.clear()
            return
        if self.flow is not None and run is self.flow.run and proposals == self.flow.proposals_only:
            self.refresh()
            return
        self.flow = None if run is None else AnswerFlow(run, proposals_only=proposals)
        if self.flow is not None:
            self.flow.update()
        self._has_caret = self.flow is not None and not self.flow.run.info.is_over
        self._show_all()
        bar = self.verticalScrollBar()
        bar.setValue(bar.maximum() if self._has_caret else 0)
        if not self._has_caret:
            self._show_chosen(self._selection.chosen)

    def show_text(self, text: str) -> None:
        """Shows an answer whose tokens are not known."""
        if self.flow is not None or text != self.toPlainText():
            self.flow, self._starts, self.marked, self._has_caret = None, [], [], False
            self._differing = []
            self.setPlainText(plain(text, len(text)))

    def _show_all(self, *_: object) -> None:
        if self.flow is not None or self._starts:
            self.clear()
            self._end = 0
            self._put(0)

    def refresh(self) -> None:
        flow = self.flow
        if flow is None:
            return
        changed = flow.update()
        if changed is not None:
            self._put(changed)
        if self._has_caret == flow.run.info.is_over:
            self._has_caret = not flow.run.info.is_over
            self.viewport().update()

    def _put(self, changed: int) -> None:
        """Writes the marks from the index `changed` on."""
        marks = [] if self.flow is None else self.flow.marks
        bar = self.verticalScrollBar()
        follows = bar.value() >= bar.maximum() - 2 and self.flow is not None and not self.flow.run.info.is_over
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()
        cursor.setPosition(self._starts[changed] if changed < len(self._starts) else self._end)
        cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
        cursor.removeSelectedText()
        block = QTextBlockFormat()
        block.setLineHeight(LINE_PX, QTextBlockFormat.LineHeightTypes.FixedHeight.value)
        cursor.setBlockFormat(block)
        del self._starts[changed:]
        for text, style in self._stretches(marks, changed, cursor.position()):
            cursor.insertText(text, style)
        self._end = cursor.position()
        if self.flow is not None and self.flow.is_cut:
            cursor.insertText(_CUT, _Styles(self._themes.theme).dim)
        cursor.endEditBlock()
        self.marked = marks_of(self.flow, self._selection.chosen)
        self._show_backgrounds()
        if follows:
            bar.setValue(bar.maximum())

    def _stretches(self, marks: Sequence[TokenMark], first: int, start: int) -> Iterable[tuple[str, QTextCharFormat]]:
        """Text of one format each. The space before a round stays plain, so that neighbouring lines keep apart."""
        styles = _Styles(self._themes.theme)
        held, held_style = "", styles.plain
        for index in range(first, len(marks)):
            mark, before = marks[index], marks[index - 1] if index else None
            text = _shown(mark)
            text = text if start else text.removeprefix(" ")
            self._starts.append(start)
            start += _units(text)
            style = styles.of(mark)
            joins = before is not None and (before.origin, before.round_index) == (mark.origin, mark.round_index)
            lead = 0 if joins else len(text) - len(text.lstrip(" "))
            for part, part_style in ((text[:lead], styles.plain), (text[lead:], style)):
                if part and part_style is not held_style:
                    if held:
                        yield held, held_style
                    held, held_style = "", part_style
                held += part
        if held:
            yield held, held_style

    def _span(self, index: int) -> tuple[int, int]:
        """Characters of a mark without the spaces before its word."""
        start = self._starts[index]
        stop = self._starts[index + 1] if index + 1 < len(self._starts) else self._end
        text = "" if self.flow is None or start == stop else _shown(self.flow.marks[index])
        # The first mark is written without its space.
        cut = _units(text) - (stop - start)
        return min(stop, start + max(0, len(text) - len(text.lstrip(" ")) - cut)), stop

    def plain_text(self) -> str:
        """The selected text, or the whole answer: without rejected tokens and control pieces."""
        cursor = self.textCursor()
        if self.flow is None:
            return cursor.selectedText().replace("\u2029", "\n") or self.toPlainText()
        if not cursor.hasSelection():
            return self.flow.plain_text()
        start, stop = cursor.selectionStart(), cursor.selectionEnd()
        text, ends = self.toPlainText().encode("utf-16-le"), [*self._starts[1:], self._end]
        return "".join(
            text[2 * max(start, begin) : 2 * min(stop, end)].decode("utf-16-le", "replace")
            for mark, begin, end in zip(self.flow.marks, self._starts, ends, strict=True)
            if mark.is_answer and begin < stop and end > start
        )

    def createMimeDataFromSelection(self) -> QMimeData:
        """Plain text of the answer, for the clipboard and for dragging."""
        data = QMimeData()
        data.setText(self.plain_text())
        return data

    def mark_at(self, point: QPoint) -> TokenMark | None:
        place = QPointF(point) + QPointF(0, self.verticalScrollBar().value())
        at = self.document().documentLayout().hitTest(place, Qt.HitTestAccuracy.ExactHit)
        index = bisect_right(self._starts, at) - 1 if 0 <= at < self._end else -1
        return None if self.flow is None or index < 0 else self.flow.marks[index]

    def describe(self, mark: TokenMark) -> str:
        """Text of the tool tip: piece, id, origin, round, time, latency and probability."""
        run = self.flow.run if self.flow else None
        first = mark.tokens[0]
        ids = " ".join(str(token.token_id) for token in mark.tokens if token.known_id is not None)
        lines = [f"{mark.text.strip() or first.piece!r}" + (f"   id {ids}" if ids else "")]
        known = "lossy: need not be the target's own" if mark.origin == ORIGIN_DRAFT else mark.origin
        origin = known if mark.round_index < 0 else f"{known} in round {mark.round_index + 1}"
        lines.append(f"position {mark.position} · {origin}")
        zero = run.info.start_ns if run else None
        times = [] if zero is None else [f"at {ms_text(ms_from_ns(first.t_ns - zero))}"]
        if mark.latency_ns is not None:
            times.append(f"{ms_text(ms_from_ns(mark.latency_ns))} since the previous token")
        if times:
            lines.append(" · ".join(times))
        chance = None if self.flow is None else chance_of(self.flow, mark)
        if chance is not None:
            lines.append(f"probability {chance_text(chance)}")
        return "\n".join(lines)

    def mark_differing(self, stretches: Sequence[tuple[int, int | None]]) -> None:
        """Gives the tokens at these positions a background (see `AnswerDiff.differing`), in order."""
        if list(stretches) != self._differing:
            self._differing = list(stretches)
            self._show_backgrounds()

    def _differs(self, mark: TokenMark) -> bool:
        place = bisect_right(self._differing, mark.position, key=lambda stretch: stretch[0]) - 1
        if place < 0 or not mark.is_answer:
            return False
        stop = self._differing[place][1]
        return stop is None or mark.position < stop

    def _show_backgrounds(self) -> None:
        theme = self._themes.theme
        grounds = [(self.differing, theme.alpha(theme.warn, _DIFFERENT))] if self._differing else []
        grounds.append((self.marked, theme.alpha(theme.accent, _CHOSEN)))
        self.setExtraSelections([self._ground(span, color) for found, color in grounds for span in self._joined(found)])

    def _joined(self, indices: Sequence[int]) -> list[tuple[int, int]]:
        """Spans of characters; neighbours are one span."""
        spans: list[tuple[int, int]] = []
        for place, index in enumerate(indices):
            start, stop = self._span(index)
            if place and indices[place - 1] == index - 1:
                start = spans.pop()[0]
            spans.append((start, stop))
        return spans

    def _ground(self, span: tuple[int, int], color: QColor) -> QTextEdit.ExtraSelection:
        ground = QTextEdit.ExtraSelection()
        cursor = QTextCursor(self.document())
        cursor.setPosition(span[0])
        cursor.setPosition(span[1], QTextCursor.MoveMode.KeepAnchor)
        style = QTextCharFormat()
        style.setBackground(color)
        ground.cursor, ground.format = cursor, style
        return ground

    def _place_of(self, at: int) -> QRectF:
        """The caret's place before a character, in px of the viewport."""
        cursor = QTextCursor(self.document())
        cursor.setPosition(min(at, self._end))
        return QRectF(self.cursorRect(cursor))

    def paintEvent(self, event: QPaintEvent) -> None:
        """The text, and a caret while the run goes on."""
        super().paintEvent(event)
        if self._has_caret:
            place = self._place_of(self._end)
            room = QRectF(place.left() + 2, place.top() + 2, 7, place.height() - 4)
            QPainter(self.viewport()).fillRect(room, self._themes.theme.accent)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        if event.button() == Qt.MouseButton.LeftButton and not self.textCursor().hasSelection():
            mark = self.mark_at(event.position().toPoint())
            flow = self.flow
            self._selection.select(None if mark is None or flow is None else chosen_of(flow.run.run_id, mark))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Copy):
            QGuiApplication.clipboard().setText(self.plain_text())
        elif event.key() in (Qt.Key.Key_Left, Qt.Key.Key_Right) and not event.modifiers():
            self._step(-1 if event.key() == Qt.Key.Key_Left else 1)
        else:
            super().keyPressEvent(event)

    def viewportEvent(self, event: QEvent) -> bool:
        return show_tip(event, self.viewport(), self._tip) or super().viewportEvent(event)

    def _tip(self, point: QPoint) -> str:
        mark = self.mark_at(point)
        return "" if mark is None else self.describe(mark)

    def _step(self, by: int) -> None:
        answer = [] if self.flow is None else [mark.position for mark in self.flow.marks if not mark.is_rejected]
        if self.flow is None or not answer:
            return
        chosen, here = self._selection.chosen, None
        if isinstance(chosen, TokenRef | RoundRef) and chosen.run_id == self.flow.run.run_id:
            here = chosen.position if isinstance(chosen, TokenRef) else chosen.drafted
        place = 0 if here is None else min(max(bisect_right(answer, here) - 1 + by, 0), len(answer) - 1)
        self._selection.select(TokenRef(self.flow.run.run_id, answer[place]))

    def _show_chosen(self, chosen: Chosen | None) -> None:
        self.marked = marks_of(self.flow, chosen)
        self._show_backgrounds()
        if self.marked and not isinstance(chosen, TimeRange):
            place, bar = self._place_of(self._starts[self.marked[0]]), self.verticalScrollBar()
            if place.top() < 0 or place.bottom() > self.viewport().height():
                bar.setValue(bar.value() + round(place.top() - self.viewport().height() / 3))


class _Styles:
    """One character format per look of a token; accepted text keeps the plain colour."""

    def __init__(self, theme: Theme) -> None:
        self._theme = theme
        self.plain, self.dim = self._format(theme.text), self._format(theme.text_dim)
        rejected = self._format(theme.alpha(theme.origin(ORIGIN_REJECTED), 0.8))
        rejected.setFontStrikeOut(True)
        self._looks = {ORIGIN_REJECTED: rejected}
        for origin, line in _UNDERLINES.items():
            color = theme.origin(origin)
            style = self._looks[origin] = self._format(color if origin == ORIGIN_DRAFT else theme.text)
            style.setUnderlineStyle(line)
            style.setUnderlineColor(color)

    def of(self, mark: TokenMark) -> QTextCharFormat:
        return self.dim if mark.is_control else self._looks.get(mark.origin, self.plain)

    def _format(self, color: QColor) -> QTextCharFormat:
        style = QTextCharFormat()
        style.setFont(self._theme.font(ANSWER_PX))
        style.setForeground(color)
        return style


def chance_of(flow: AnswerFlow, mark: TokenMark) -> float | None:
    """The probability that the model gave a mark's token; the least of several bytes; None where not recorded."""
    role = DRAFT if flow.proposals_only else None
    chances = []
    for token in mark.tokens:
        record = flow.run.alternatives_of(token, role)
        chances.append(None if record is None else record.chance_at_most(token.token_id))
    known = [chance for chance in chances if chance is not None]
    return min(known) if len(known) == len(chances) else None


def _shown(mark: TokenMark) -> str:
    """The characters of a mark on screen; a control piece gets a space before it."""
    return (f" {mark.tokens[0].piece}" if mark.is_control else mark.text).replace("\r", "␍")


def _units(text: str) -> int:
    """The length of a text in a document of Qt, which counts in UTF-16."""
    return len(text) + sum(letter > "\uffff" for letter in text)
