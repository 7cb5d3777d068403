"""The panel in which two answers stand beside each other, phrase by phrase, with the moments they were said."""

from __future__ import annotations

from typing import NamedTuple

from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import (
    QFontMetricsF,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QShowEvent,
)
from PySide6.QtWidgets import QWidget

from evprof.core.safe_text import one_line
from evprof.core.units import count_text, ms_from_ns, ms_text
from evprof.metrics.comparison.answers import AHEAD, SAME, AnswerDiff, AnswerSpan, SaidWord
from ui.columns.answer_comparison import AnswerComparison
from ui.state.run_controller import RunController
from ui.state.selection import Selection, TokenRef
from ui.style.theme import ANSWER_PX, GRID, SMALL_PX, ThemeHolder
from ui.widgets.boxes import in_role, stacked
from ui.widgets.drawn import Drawn, show_tip
from ui.widgets.empty_state import EmptyState
from ui.widgets.panel_parts import say, scrolling, sentence

_MIDDLE_PX = 112.0
_PAD = 5.0
_MOST_TOLD = 60
_TEACHES = (
    "Two answers, phrase by phrase",
    "This shows where the answers of two runs part, and who said what earlier. "
    "Put one run on A and another on B: drag them from the run list, or Ctrl+click two of them.",
)
_WRAPS = Qt.TextFlag.TextWordWrap | Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop


class _Row(NamedTuple):
    """A span with its place on the sheet, in px."""

    span: AnswerSpan
    top: float
    height: float


class DiffSheet(Drawn):
    """The phrases of both answers, one line of the sheet for each stretch; a click selects the first token of it."""

    def __init__(self, selection: Selection, themes: ThemeHolder) -> None:
        super().__init__(themes)
        self._selection = selection
        self._themes = themes
        self._diff: AnswerDiff | None = None
        self._run_ids = (-1, -1)
        self._rows: list[_Row] = []
        self._at = -1
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Both answers, phrase by phrase")

    def show_diff(self, diff: AnswerDiff | None, run_ids: tuple[int, int]) -> None:
        """Shows another diff."""
        if run_ids != self._run_ids:
            self._at = -1
        self._diff, self._run_ids = diff, run_ids
        self.setAccessibleDescription(self.as_text())
        self._lay_out()

    def as_text(self) -> str:
        """Tab-separated lines: what A says, when, who was earlier, when, what B says."""
        lines = []
        for span in self._diff.spans if self._diff else ():
            a, b = span.a, span.b
            lines.append([_text(a), _when(a), _lead(span), _when(b), _text(b)])
        return "\n".join("\t".join(line) for line in lines)

    def sizeHint(self) -> QSize:
        """As high as its rows."""
        last = self._rows[-1] if self._rows else None
        return QSize(480, round(last.top + last.height) if last else 0)

    def _side_width(self) -> float:
        return max(60.0, (self.width() - _MIDDLE_PX) / 2 - 2 * _PAD)

    def _lay_out(self) -> None:
        metrics = QFontMetricsF(self._themes.theme.font(ANSWER_PX))
        room = QRectF(0, 0, self._side_width(), 1e6)
        rows, top = [], 0.0
        for span in self._diff.spans if self._diff else ():
            heights = [metrics.boundingRect(room, int(_WRAPS), _text(side)).height() for side in (span.a, span.b)]
            height = max(*heights, metrics.height()) + 2 * _PAD
            rows.append(_Row(span, top, height))
            top += height
        self._rows = rows
        self.setMinimumHeight(round(top))
        self.updateGeometry()
        self.update()

    def row_at(self, y: float) -> int:
        """The row at a height, -1 beside them."""
        return next((place for place, row in enumerate(self._rows) if row.top <= y < row.top + row.height), -1)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Texts wrap anew."""
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._lay_out()

    def paintEvent(self, event: QPaintEvent) -> None:
        """The rows that Qt asks for: texts at both sides, moments in the middle."""
        painter = QPainter(self)
        for place, row in enumerate(self._rows):
            if row.top + row.height >= event.rect().top() and row.top <= event.rect().bottom():
                self._paint_row(painter, row, is_chosen=place == self._at)

    def _paint_row(self, painter: QPainter, row: _Row, *, is_chosen: bool) -> None:
        theme, width = self._themes.theme, self._side_width()
        whole = QRectF(0, row.top, self.width(), row.height)
        is_same, differs = row.span.kind == SAME, row.span.kind not in (SAME, AHEAD)
        if is_chosen:
            painter.fillRect(whole, theme.selection)
        elif differs:
            painter.fillRect(whole, theme.alpha(theme.warn, 0.10))
        painter.setPen(QPen(theme.line, 1))
        painter.drawLine(QPointF(0, whole.bottom() - 0.5), QPointF(self.width(), whole.bottom() - 0.5))
        painter.setFont(theme.font(ANSWER_PX))
        painter.setPen(theme.text if differs else theme.text_dim)
        left = QRectF(_PAD, row.top + _PAD, width, row.height)
        right = QRectF(self.width() - _PAD - width, row.top + _PAD, width, row.height)
        for room, side in ((left, row.span.a), (right, row.span.b)):
            painter.drawText(room, int(_WRAPS), _text(side))
        middle = QRectF(left.right() + _PAD, row.top, self.width() - 2 * (width + 2 * _PAD), row.height)
        painter.setFont(theme.font(SMALL_PX))
        painter.setPen(theme.text_dim)
        if is_same:
            painter.drawText(middle, int(Qt.AlignmentFlag.AlignCenter), _lead(row.span))
            return
        middle.adjust(4, 0, -4, 0)
        center = Qt.AlignmentFlag.AlignVCenter
        painter.drawText(middle, int(center | Qt.AlignmentFlag.AlignLeft), _when(row.span.a))
        painter.drawText(middle, int(center | Qt.AlignmentFlag.AlignRight), _when(row.span.b))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Selects the first token of the side that was clicked, or of the side that says something."""
        place = self.row_at(event.position().y())
        if event.button() == Qt.MouseButton.LeftButton and place >= 0:
            self.choose(place, 1 if event.position().x() > self.width() / 2 else 0)

    def choose(self, place: int, side: int) -> None:
        """Selects a row's first token of one side."""
        self._at = place
        span = self._rows[place].span
        said = (span.a, span.b)[side] or (span.a, span.b)[1 - side]
        side = side if (span.a, span.b)[side] else 1 - side
        if said[0].position >= 0:
            self._selection.select(TokenRef(self._run_ids[side], said[0].position))
        self.update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Up and down step through the rows; copying takes all of them as text."""
        if event.matches(QKeySequence.StandardKey.Copy):
            QGuiApplication.clipboard().setText(self.as_text())
        elif event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down) and self._rows:
            by = 1 if event.key() == Qt.Key.Key_Down else -1
            self.choose(min(max(self._at + by, 0), len(self._rows) - 1), 0)
        else:
            super().keyPressEvent(event)

    def event(self, event: QEvent) -> bool:
        """Tool tips tell both moments of a phrase."""
        return show_tip(event, self, self._tip) or super().event(event)

    def _tip(self, point: QPoint) -> str:
        place = self.row_at(point.y())
        if place < 0:
            return ""
        span = self._rows[place].span
        told = [f"{name}: {_when(side)}" for name, side in (("A", span.a), ("B", span.b)) if side and _when(side)]
        return "\n".join([*told, "Times count from each run's start."] if told else [])


class AnswerPanel(QWidget):
    """Where the answers of A and B part, and who said what earlier."""

    def __init__(self, controller: RunController, selection: Selection, themes: ThemeHolder) -> None:
        super().__init__()
        in_role(self, "panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.comparison = AnswerComparison(controller, selection, self)
        self.comparison.changed.connect(self._fill)
        self.sheet = DiffSheet(selection, themes)
        self.said = sentence("title")
        self.keyword = sentence()
        self.note = sentence("small")
        self.empty = EmptyState(*_TEACHES)
        in_role(self.sheet, "panel")
        self.sheet.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._pane = scrolling(self.sheet)
        margins = (2 * GRID, GRID, GRID, GRID)
        parts = (self.said, self.keyword, self.note, (self._pane, 1), (self.empty, 1))
        stacked(*parts, on=self, margins=margins, spacing=GRID // 2)
        self._fill()

    def showEvent(self, event: QShowEvent) -> None:
        """Catches up with what happened while it was hidden."""
        super().showEvent(event)
        self.comparison.look()

    def _fill(self) -> None:
        diff, runs = self.comparison.diff, self.comparison.runs
        self.empty.setVisible(diff is None)
        self._pane.setVisible(diff is not None)
        say(self.said, "" if diff is None else parting_sentence(diff))
        say(self.keyword, "" if diff is None else keyword_sentence(diff))
        cut = "Only the beginnings of the answers are compared. " if diff is not None and diff.is_cut else ""
        say(self.note, "" if diff is None else f"{cut}Times count from each run's start.")
        if untold := self.comparison.untold:
            self.empty.say("No answers to compare", f"The imported file does not tell the answer of {untold}.")
        elif runs is not None:
            self.empty.say("Not compared yet", "Long answers are compared when both are over.")
        else:
            self.empty.say(*_TEACHES)
        self.sheet.show_diff(diff, (-1, -1) if runs is None else (runs[0].run_id, runs[1].run_id))


def parting_sentence(diff: AnswerDiff) -> str:
    """Where the answers part, and what each says there and when."""
    first, common = diff.first_difference, diff.common_words
    if not diff.spans:
        return "Neither has said anything yet."
    if first is None:
        so_far = " so far" if diff.spans[-1].kind == AHEAD else ""
        return f"Both say the same {common} words{so_far}." if common > 1 else f"Both say the same{so_far}."
    a, b = diff.parting
    if common and not (a and b):
        return f"Both say the same {common} words, then {'A' if a else 'B'} alone goes on: {_told(a or b)}."
    after = f"after {count_text(common, 'word')}" if common else "at the first word"
    return f"They part {after}: A goes on with {_told(a)}, B with {_told(b)}."


def keyword_sentence(diff: AnswerDiff) -> str:
    """When each came to a word of the expected answer; "" where none is expected."""
    if diff.keywords is None:
        return ""
    a, b = diff.keywords
    if a is None and b is None:
        return "Neither says a word of the expected answer."
    return f"First word of the expected answer: A {_told((a,) if a else ())}, B {_told((b,) if b else ())}."


def _told(said: tuple[SaidWord, ...]) -> str:
    if not said:
        return "nothing"
    when = "" if said[0].t_ns is None else f" at {ms_text(ms_from_ns(said[0].t_ns))}"
    return f"“{one_line(_text(said), _MOST_TOLD)}”{when}"


def _text(said: tuple[SaidWord, ...]) -> str:
    return " ".join(word.text for word in said)


def _when(said: tuple[SaidWord, ...]) -> str:
    return "" if not said or said[-1].t_ns is None else ms_text(ms_from_ns(said[-1].t_ns))


def _lead(span: AnswerSpan) -> str:
    lead = span.lead_ns
    if lead is None:
        return ""
    if not lead:
        return "at the same time"
    return f"{'A' if lead > 0 else 'B'} {ms_text(ms_from_ns(abs(lead)))} earlier"
