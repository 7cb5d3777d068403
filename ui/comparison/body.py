"""What the comparison window shows of a choice: the table, where differences come from, and what was left out."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QWidget

from evprof.core.units import count_text
from ui.comparison.contribution_bars import AXIS, ROW, ContributionBars, legend
from ui.comparison.sheet import ComparisonSheet
from ui.comparison.table import SIGNS, ComparisonTable
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import in_role, stacked
from ui.widgets.panel_parts import say, section_head, sentence

MOST_SHARE = 0.25
"""Of the height for the contributions; more of them scroll."""


class ComparisonBody(QWidget):
    """The table takes the room; below it come the bars, on one scale, and the notes."""

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.table = ComparisonTable(themes)
        self.bars = ContributionBars(themes)
        self.differences = sentence("warn")
        self.signs = sentence("small")
        self.notes = sentence("small")
        self._line = in_role(QFrame(), "rule")
        self._reason = section_head("Where the difference comes from")
        self._pane = QScrollArea()
        self._pane.setWidgetResizable(True)
        self._pane.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._pane.setWidget(self.bars)
        for label in (self.differences, self._reason, self.signs, self.notes):
            label.setContentsMargins(GRID + 2, GRID // 2, GRID, 0)
        below = (self._line, self._reason, self._pane, self.signs, self.notes)
        stacked(self.differences, (self.table, 1), *below, on=self, spacing=GRID // 2)

    def show_sheet(self, sheet: ComparisonSheet) -> None:
        """Shows a comparison."""
        say(self.differences, sheet.differences)
        self.table.show_sheet(sheet)
        self.bars.show_rows(sheet.contributions)
        self._fit()
        for widget in (self._line, self._reason, self._pane):
            widget.setVisible(bool(sheet.contributions))
        meanings = legend(sheet.contributions)
        said = [
            f"Hidden, without a difference: {count_text(sheet.hidden, 'figure')}." if sheet.hidden else "",
            SIGNS if len(sheet.heads) > 1 else "",
            f"{meanings}." if meanings else "",
        ]
        say(self.signs, " ".join(filter(None, said)))
        say(self.notes, " ".join(sheet.notes))

    def _fit(self) -> None:
        """All bars in sight, as long as the table keeps most of the room."""
        wanted = self.bars.sizeHint().height()
        most = AXIS + ROW * max(2, int(self.height() * MOST_SHARE / ROW))
        self._pane.setFixedHeight(min(wanted, most))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()
