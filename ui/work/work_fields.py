"""One thing that can be given to long work: its name, the field that takes it, and what it means."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QCheckBox, QFileDialog, QLineEdit, QPlainTextEdit, QPushButton, QWidget

from evprof.run.works.work_form import FILE, FLAG, FOLDER, LIST, ON, PLACE, WorkField
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import beside, in_role, stacked
from ui.widgets.choice_box import ChoiceBox
from ui.widgets.label import Label

NAME_PX = 18 * GRID
_LIST_PX = 7 * GRID
_TOP_PX, _FLAG_TOP_PX = 6, 0
"""Above a name, so that it is level with the first line of its field, or with its box."""


class WorkFieldRow(QWidget):
    """A field of a form.

    Signals:
        changed(): another value was given.
    """

    changed = Signal()

    def __init__(self, field: WorkField, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.field = field
        name = Label(field.title)
        name.setFixedWidth(NAME_PX)
        name.setAlignment(Qt.AlignmentFlag.AlignTop)
        name.setContentsMargins(0, _FLAG_TOP_PX if field.kind == FLAG else _TOP_PX, 0, 0)
        self.editor = self._make_editor(themes)
        self.editor.setAccessibleName(field.title)
        self.editor.setAccessibleDescription(field.help)
        name.setBuddy(self.editor)
        told = field.help.partition(". ")[2] if field.kind == FLAG else field.help
        meaning = in_role(Label(told), "small")
        meaning.setWordWrap(True)
        right = stacked(self._with_browser(), *([meaning] if told else []), spacing=2)
        beside(name, (right, 1), on=self, spacing=GRID)

    def _make_editor(self, themes: ThemeHolder) -> QWidget:
        field = self.field
        if field.kind == FLAG:
            # The box says what ticking it does: "No write [ ] Yes" would be two answers.
            box = QCheckBox(field.help.partition(". ")[0])
            box.toggled.connect(self.changed)
            return box
        if field.choices:
            choice = ChoiceBox(themes)
            choice.setEditable(field.kind == FILE)
            choice.addItems(list(field.choices) if field.is_required else ["", *field.choices])
            choice.setCurrentIndex(0)
            choice.currentTextChanged.connect(self.changed)
            return choice
        if field.kind == LIST:
            text = QPlainTextEdit()
            text.setFixedHeight(_LIST_PX)
            text.setTabChangesFocus(True)
            text.setPlaceholderText("one a line")
            text.textChanged.connect(self.changed)
            return text
        line = QLineEdit()
        line.setPlaceholderText(field.default)
        line.textChanged.connect(self.changed)
        return line

    def _with_browser(self) -> QWidget:
        if self.field.kind not in (FILE, FOLDER, PLACE):
            return self.editor
        browse = QPushButton("Choose…")
        browse.setAccessibleName(f"Choose: {self.field.title}")
        browse.clicked.connect(self._browse)
        both = QWidget()
        beside((self.editor, 1), browse, on=both, spacing=GRID)
        return both

    def _browse(self) -> None:
        start = str(Path(self.value).parent) if self.value else ""
        title = self.field.title
        if self.field.kind == FOLDER:
            found = QFileDialog.getExistingDirectory(self, title, start)
        elif self.field.kind == PLACE:
            found, _ = QFileDialog.getSaveFileName(self, title, start, options=QFileDialog.Option.DontConfirmOverwrite)
        else:
            found, _ = QFileDialog.getOpenFileName(self, title, start)
        if found:
            self.give(found)

    @property
    def value(self) -> str:
        """What was given; "" for nothing."""
        editor = self.editor
        if isinstance(editor, QCheckBox):
            return ON if editor.isChecked() else ""
        if isinstance(editor, ChoiceBox):
            return editor.currentText()
        if isinstance(editor, QPlainTextEdit):
            return editor.toPlainText()
        return editor.text() if isinstance(editor, QLineEdit) else ""

    def give(self, value: str) -> None:
        """Gives a value, as if it had been typed."""
        editor = self.editor
        if isinstance(editor, QCheckBox):
            editor.setChecked(value == ON)
        elif isinstance(editor, ChoiceBox):
            editor.setCurrentText(value)
        elif isinstance(editor, QPlainTextEdit):
            editor.setPlainText(value)
        elif isinstance(editor, QLineEdit):
            editor.setText(value)

    def fits(self, words: str) -> bool:
        """Whether its name or its meaning holds all these words."""
        text = f"{self.field.title} {self.field.option} {self.field.help}".casefold()
        return all(word in text for word in words.casefold().split())
