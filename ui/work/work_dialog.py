"""The form of long work: required fields first, all other options of the command folded below."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QCheckBox, QDialog, QFileDialog, QLabel, QLineEdit, QPlainTextEdit, QPushButton, QWidget

from evprof.run.works.work_form import FILE, FLAG, FOLDER, LIST, ON, PLACE, WorkField, WorkForm
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import beside, in_role, put_parts, stacked
from ui.widgets.choice_box import ChoiceBox
from ui.widgets.label import Label
from ui.widgets.panel_parts import ToneLabel, scrolling, section_head

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


_WIDTH_PX, _HEIGHT_PX = 680, 560


class WorkDialog(QDialog):
    """A form of one command. `start` takes the values when they can be meant; `check` says why they cannot.

    The command line that does the same stands below, to be copied. Does not block the window.
    """

    def __init__(
        self,
        form: WorkForm,
        check: Callable[[list[str]], str],
        start: Callable[[Mapping[str, str]], object],
        themes: ThemeHolder,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.form = form
        self._check, self._start = check, start
        self.setWindowTitle(form.offer.title)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setMinimumSize(580, 240)
        self.rows = {field.name: WorkFieldRow(field, themes) for field in form.fields}
        self._heads: dict[str, QLabel] = {}
        text = in_role(Label(form.text), "dim")
        text.setWordWrap(True)
        self.search = QLineEdit()
        self.search.setPlaceholderText("Find an option")
        self.search.setAccessibleName("Find an option")
        self.search.setClearButtonEnabled(True)
        self.search.textChanged.connect(self._show_rows)
        self.more = in_role(QPushButton(), "link")
        self.more.setCheckable(True)
        self.more.toggled.connect(self._show_rows)
        self.problem = ToneLabel(wraps=True, alignment=Qt.AlignmentFlag.AlignLeft)
        self.command = in_role(Label(), "small")
        self.command.setWordWrap(True)
        self.command.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.start_button = in_role(QPushButton("Start"), "primary")
        self.start_button.setDefault(True)
        self.start_button.clicked.connect(self.start)
        ground = in_role(QWidget(), "panel")
        ground.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._fill(ground)
        area = scrolling(ground)
        below = beside((self.command, 1), self.start_button, spacing=2 * GRID)
        margins = (2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        stacked(text, (area, 1), self.problem, below, on=self, margins=margins, spacing=GRID)
        for row in self.rows.values():
            row.changed.connect(self._show_command)
        self._show_rows()
        self._show_command()
        # As high as what is asked first: a form of three lines in a high window looks unfinished.
        around = self.sizeHint().height() - area.sizeHint().height()
        self.resize(_WIDTH_PX, min(around + ground.heightForWidth(_WIDTH_PX - 4 * GRID), _HEIGHT_PX))

    def _fill(self, ground: QWidget) -> None:
        column = stacked(on=ground, margins=(2 * GRID, GRID, 2 * GRID, GRID), spacing=GRID + 4)
        first = sorted((row for row in self.rows.values() if not row.field.group), key=_comes_later)
        for row in first:
            column.addWidget(row)
        if len(first) < len(self.rows):
            search = beside(self.more, None, (self.search, 1))
            column.addLayout(search)
            put_parts(search)
        for row in self.rows.values():
            group = row.field.group
            if group and group not in self._heads:
                self._heads[group] = section_head(group)
                column.addWidget(self._heads[group])
            if group:
                column.addWidget(row)
        column.addStretch(1)

    @property
    def values(self) -> dict[str, str]:
        return {name: row.value for name, row in self.rows.items()}

    def _show_rows(self, *_: object) -> None:
        words = self.search.text()
        is_open = self.more.isChecked()
        if is_open or words.strip():
            self.resize(self.width(), max(self.height(), _HEIGHT_PX))
        inner = [row for row in self.rows.values() if row.field.group]
        self.more.setText(f"{'▾' if is_open else '▸'} {len(inner)} more options")
        shown = set()
        for row in inner:
            is_shown = row.fits(words) if words.strip() else is_open
            row.setVisible(is_shown)
            if is_shown:
                shown.add(row.field.group)
        for group, head in self._heads.items():
            head.setVisible(group in shown)

    def _show_command(self) -> None:
        self.command.setText(f"evprof {shlex.join(self.form.argv(self.values))}")
        self.problem.say("", "bad")

    def _point_at(self, field: WorkField) -> None:
        row = self.rows[field.name]
        if row.isHidden():
            self.search.clear()
            self.more.setChecked(True)
        row.editor.setFocus()

    def start(self) -> None:
        values = self.values
        missing = self.form.missing(values)
        if missing:
            self.problem.say(f"Say what this is to be: {', '.join(field.title for field in missing)}.", "bad")
            self._point_at(missing[0])
            return
        if problem := self._check(self.form.argv(values)):
            field, sentence = self.form.in_its_words(problem)
            self.problem.say(sentence, "bad")
            if field is not None:
                self._point_at(field)
            return
        self._start(values)
        self.close()


def _comes_later(row: WorkFieldRow) -> bool:
    return not row.field.is_required
