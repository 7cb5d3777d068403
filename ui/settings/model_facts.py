"""The lower part of the model picker: what a checkpoint takes, and whether it fits."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from ui.settings.model_report import ModelReport
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import stacked
from ui.widgets.figure_table import FigureTable, TableRow
from ui.widgets.layout import rule
from ui.widgets.panel_parts import ToneLabel, say, sentence


class ModelFactsView(QWidget):
    """Shows one ModelReport; nothing until there is one."""

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.table = FigureTable(themes)
        self.verdict = ToneLabel(wraps=True, alignment=Qt.AlignmentFlag.AlignLeft)
        self.reason = sentence()
        self.problem = sentence("bad")
        self._report: ModelReport | None = None
        stacked(rule(), self.problem, self.table, self.verdict, self.reason, on=self, spacing=GRID // 2)
        self.hide()

    @property
    def report(self) -> ModelReport | None:
        """What is shown."""
        return self._report

    def show_report(self, report: ModelReport) -> bool:
        """Shows a report; whether it was another than before."""
        if report == self._report:
            return False
        self._report = report
        self.table.reset_widths()
        self.table.setVisible(bool(report.figures))
        self.table.show_rows(
            [
                TableRow(figure.name, (figure.text,), roles=(figure.role,), tip=figure.tip, has_line=False)
                for figure in report.figures
            ]
        )
        self.verdict.say(report.verdict, report.role)
        self.verdict.setVisible(bool(report.verdict))
        say(self.reason, report.reason)
        say(self.problem, report.problem)
        self.show()
        return True
