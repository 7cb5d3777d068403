"""The panel with two answers beside each other, phrase by phrase, and the times at which they were written."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QKeyEvent, QKeySequence, QShowEvent
from PySide6.QtWidgets import QHeaderView, QTableWidget, QTableWidgetItem, QWidget

from evprof.core.texts import one_line, plain
from evprof.core.units import count_text, ms_from_ns, ms_text
from evprof.metrics.comparison.answers import AHEAD, SAME, AnswerDiff, AnswerSpan, SaidWord
from ui.columns.answer_comparison import AnswerComparison
from ui.state.run_controller import RunController
from ui.state.selection import Selection, TokenRef
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import in_role, stacked
from ui.widgets.panel_parts import EmptyState, say, sentence

_LONGEST_QUOTE = 60
_HEADS = ("A", "A at", "earlier", "B at", "B")
_TEXTS = (0, 4)
"""Columns of the answers; the others hold times."""

_TEACHES = (
    "Two answers, phrase by phrase",
    "This shows where the answers of two runs differ, and which run wrote what earlier. "
    "Put one run on A and another on B: drag them from the run list, or Ctrl+click two of them.",
)


class DiffSheet(QTableWidget):
    """A row for each stretch of the answers. Choosing a cell selects the first token of its side."""

    def __init__(self, selection: Selection, themes: ThemeHolder) -> None:
        super().__init__(0, len(_HEADS))
        self._selection = selection
        self._themes = themes
        self._spans: tuple[AnswerSpan, ...] = ()
        self._run_ids = (-1, -1)
        in_role(self, "sheet").setAccessibleName("Both answers, phrase by phrase")
        self.setHorizontalHeaderLabels(_HEADS)
        self.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
        self.setSelectionBehavior(QTableWidget.SelectionBehavior.SelectRows)
        self.setSelectionMode(QTableWidget.SelectionMode.SingleSelection)
        self.setTabKeyNavigation(False)
        self.setShowGrid(False)
        self.setVerticalScrollMode(QTableWidget.ScrollMode.ScrollPerPixel)
        self.verticalHeader().hide()
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        head = self.horizontalHeader()
        head.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        for column in _TEXTS:
            head.setSectionResizeMode(column, QHeaderView.ResizeMode.Stretch)
        self.currentCellChanged.connect(self._choose)
        themes.changed.connect(self._fill)

    def show_diff(self, diff: AnswerDiff | None, run_ids: tuple[int, int]) -> None:
        self._spans, self._run_ids = () if diff is None else diff.spans, run_ids
        self.setAccessibleDescription(self.as_text())
        self._fill()

    def as_text(self) -> str:
        """Tab-separated lines: text of A, its time, which was earlier, time of B, text of B."""
        return "\n".join("\t".join(_cells(span)) for span in self._spans)

    def _fill(self, *_: object) -> None:
        theme = self._themes.theme
        self.blockSignals(True)
        self.setRowCount(len(self._spans))
        for row, span in enumerate(self._spans):
            color = theme.text_dim if span.kind in (SAME, AHEAD) else theme.text
            for column, text in enumerate(_cells(span)):
                item = QTableWidgetItem(plain(text))
                item.setForeground(color)
                if column not in _TEXTS:
                    item.setTextAlignment(Qt.AlignmentFlag.AlignCenter)
                    item.setToolTip("Times count from each run's start.")
                self.setItem(row, column, item)
        self.blockSignals(False)

    def _choose(self, row: int, column: int, _row: int = -1, _column: int = -1) -> None:
        """Selects the first token of the chosen side, or of the side that has text."""
        if not 0 <= row < len(self._spans):
            return
        sides = self._spans[row].a, self._spans[row].b
        side = int(column > _TEXTS[-1] // 2)
        side = side if sides[side] else 1 - side
        if sides[side][0].position >= 0:
            self._selection.select(TokenRef(self._run_ids[side], sides[side][0].position))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Copy):
            QGuiApplication.clipboard().setText(self.as_text())
        else:
            super().keyPressEvent(event)


class AnswerPanel(QWidget):
    """Where the answers of A and B differ, and which run wrote what earlier."""

    def __init__(self, controller: RunController, selection: Selection, themes: ThemeHolder) -> None:
        super().__init__()
        in_role(self, "panel").setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.comparison = AnswerComparison(controller, selection, self)
        self.comparison.changed.connect(self._fill)
        self.sheet = DiffSheet(selection, themes)
        self.said = sentence("title")
        self.keyword = sentence()
        self.note = sentence("small")
        self.empty = EmptyState(*_TEACHES)
        parts = (self.said, self.keyword, self.note, (self.sheet, 1), (self.empty, 1))
        stacked(*parts, on=self, margins=(2 * GRID, GRID, GRID, GRID), spacing=GRID // 2)
        self._fill()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.comparison.look()

    def _fill(self) -> None:
        diff, runs = self.comparison.diff, self.comparison.runs
        self.empty.setVisible(diff is None)
        self.sheet.setVisible(diff is not None)
        say(self.said, "" if diff is None else parting_sentence(diff))
        say(self.keyword, "" if diff is None else keyword_sentence(diff))
        cut = "Only the beginnings of the answers are compared. " if diff is not None and diff.is_cut else ""
        say(self.note, "" if diff is None else f"{cut}Times count from each run's start.")
        if unknown := self.comparison.unknown:
            self.empty.say("No answers to compare", f"The imported file does not hold the answer of {unknown}.")
        elif runs is not None:
            self.empty.say("Not compared yet", "Long answers are compared when both are over.")
        else:
            self.empty.say(*_TEACHES)
        self.sheet.show_diff(diff, (-1, -1) if runs is None else (runs[0].run_id, runs[1].run_id))


def parting_sentence(diff: AnswerDiff) -> str:
    """Where the answers differ first, and what each writes there and when."""
    first, common = diff.first_difference, diff.common_words
    if not diff.spans:
        return "Neither has said anything yet."
    if first is None:
        so_far = " so far" if diff.spans[-1].kind == AHEAD else ""
        return f"Both say the same {common} words{so_far}." if common > 1 else f"Both say the same{so_far}."
    a, b = diff.parting
    if common and not (a and b):
        return f"Both say the same {common} words, then {'A' if a else 'B'} alone goes on: {_quoted(a or b)}."
    after = f"after {count_text(common, 'word')}" if common else "at the first word"
    return f"They part {after}: A goes on with {_quoted(a)}, B with {_quoted(b)}."


def keyword_sentence(diff: AnswerDiff) -> str:
    """When each reached a word of the expected answer; "" where no answer is expected."""
    if diff.keywords is None:
        return ""
    a, b = diff.keywords
    if a is None and b is None:
        return "Neither says a word of the expected answer."
    return f"First word of the expected answer: A {_quoted((a,) if a else ())}, B {_quoted((b,) if b else ())}."


def _quoted(said: tuple[SaidWord, ...]) -> str:
    if not said:
        return "nothing"
    when = "" if said[0].t_ns is None else f" at {ms_text(ms_from_ns(said[0].t_ns))}"
    return f"“{one_line(_text(said), _LONGEST_QUOTE)}”{when}"


def _cells(span: AnswerSpan) -> tuple[str, str, str, str, str]:
    return _text(span.a), _when(span.a), _lead(span), _when(span.b), _text(span.b)


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
