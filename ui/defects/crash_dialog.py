"""Tells of a defect of evprof: what it was, where the report lies, and what can be done with it."""

from __future__ import annotations

import contextlib
from pathlib import Path

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog, QPlainTextEdit, QPushButton, QWidget

from evprof.core.safe_text import plain
from ui.state.outside import open_outside
from ui.style.theme import GRID
from ui.widgets.boxes import beside, in_role, stacked
from ui.widgets.label import Label

_MOST_CHARACTERS = 200_000
_WORDS = (
    "What was measured is kept. The report holds versions, where in the program it happened and the last records, no "
    "picture, event, prompt or answer. Attach it when you tell of the defect."
)


class CrashDialog(QDialog):
    """Shows the report. Does not block the window."""

    def __init__(self, title: str, sentence: str, report: Path | None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.report = report
        self.setWindowTitle("A defect of evprof")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setMinimumSize(480, 320)
        self.resize(640, 440)
        self.sentence = in_role(Label(sentence), "bad")
        self._words = in_role(Label(_WORDS), "dim")
        self._place = in_role(Label(str(report or "The report could not be written; copy what stands here.")), "small")
        for label in (self.sentence, self._words, self._place):
            label.setWordWrap(True)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.text = QPlainTextEdit(plain(_read(report) or sentence, _MOST_CHARACTERS))
        self.text.setReadOnly(True)
        self.text.setAccessibleName("Report")
        self.copy_button = QPushButton("Copy")
        self.copy_button.clicked.connect(lambda: QGuiApplication.clipboard().setText(self.text.toPlainText()))
        self.folder_button = QPushButton("Open folder")
        self.folder_button.setEnabled(report is not None)
        self.folder_button.clicked.connect(self._open_folder)
        self.go_on_button = in_role(QPushButton("Go on"), "primary")
        self.go_on_button.setDefault(True)
        self.go_on_button.clicked.connect(self.accept)
        buttons = beside(self.copy_button, self.folder_button, None, self.go_on_button, spacing=GRID)
        head = in_role(Label(title), "title")
        margins = (3 * GRID, 2 * GRID, 3 * GRID, 2 * GRID)
        parts = (head, self.sentence, self._words, (self.text, 1), self._place, buttons)
        stacked(*parts, on=self, margins=margins, spacing=GRID)
        self._others = 0

    def add(self, sentence: str, report: Path | None) -> None:
        """Another defect came meanwhile."""
        self._others += 1
        self.text.appendPlainText(f"\n———\n\n{plain(_read(report) or sentence, _MOST_CHARACTERS)}")
        first = self.sentence.text().partition(" (and ")[0]
        self.sentence.setText(f"{first} (and {self._others} more)")

    def _open_folder(self) -> None:
        if self.report is not None:
            open_outside(QUrl.fromLocalFile(str(self.report.parent)))


def _read(report: Path | None) -> str:
    if report is not None:
        with contextlib.suppress(OSError), report.open(encoding="utf-8", errors="replace") as file:
            return file.read(_MOST_CHARACTERS)
    return ""
