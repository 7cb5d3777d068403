"""The popover with all settings of a run in columns, and the row of each setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from PySide6.QtCore import QEvent, QObject, QPoint, QSignalBlocker, Qt, Signal
from PySide6.QtGui import QHideEvent, QStandardItemModel
from PySide6.QtWidgets import (
    QDoubleSpinBox,
    QFileDialog,
    QFrame,
    QGridLayout,
    QLabel,
    QPushButton,
    QSizePolicy,
    QWidget,
)

from evprof.core.errors import UserError
from evprof.core.vocabulary.drafters import KV
from evprof.core.vocabulary.setting import Setting
from evprof.loaders.adapters import read_adapter
from ui.settings.request_form import (
    DRAFTER,
    RequestForm,
    adapter_words,
    bundled_choices,
    choice_words,
    columns,
    highest,
    lowest,
    number_of,
    value_shown,
)
from ui.style.theme import BUTTON_PX, GRID, ThemeHolder
from ui.widgets.boxes import Part, beside, in_role, rule, stacked
from ui.widgets.choice_box import ChoiceBox
from ui.widgets.label import Label
from ui.widgets.panel_parts import say, section_head, sentence, wrapped

FIELD_PX, _LIST_PX = 17 * GRID, 24 * GRID

PLAIN, CHANGED, INEXACT, IDLE = "", "● ", "≈ ", "○ "
"""The mark before a name: at its default; changed; changed so that the answer may change; changed but not in use."""

_LEGEND = ((CHANGED, "not at its default"), (INEXACT, "may change the answer"), (IDLE, "set, but not in use now"))


class SettingRow(QObject):
    """Name and field of a setting in a row of a grid. It holds no value: showing one reports no change.

    Signals:
        changed(str, object): the setting's key and its new value.
    """

    changed = Signal(str, object)

    def __init__(self, control: Setting, themes: ThemeHolder, grid: QGridLayout, place: int) -> None:
        super().__init__(grid)
        self.control = control
        self.state = PLAIN
        self.name = in_role(Label(control.name), "dim")
        self.field = _list(control, themes) if control.choices else _number(control)
        self.field.setFixedHeight(BUTTON_PX)
        self.field.setMinimumWidth(FIELD_PX)
        self.field.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.field.setAccessibleName(control.name)
        self.field.setAccessibleDescription(control.sentence)
        self.name.setBuddy(self.field)
        self.reason = sentence("small")
        self.reason.setMinimumWidth(FIELD_PX)
        if not isinstance(self.field, ChoiceBox):
            self.field.valueChanged.connect(lambda number: self._tell(value_shown(self.control, number)))
        elif control.is_free:
            self.field.editTextChanged.connect(self._take_words)
        else:
            self.field.currentIndexChanged.connect(lambda index: self._tell(self.control.choices[index][0]))
        grid.addWidget(self.name, place, 0)
        grid.addWidget(self.field, place, 1)
        grid.addWidget(self.reason, place, 1)

    def show(self, is_shown: bool) -> None:
        """Shows the row: its field, or why that has no effect now."""
        self.name.setVisible(is_shown)
        self.field.setVisible(is_shown and self.field.isEnabled())
        self.reason.setVisible(is_shown and not self.field.isEnabled())

    def _tell(self, value: Any) -> None:
        self.changed.emit(self.control.key, value)

    def _take_words(self, words: str) -> None:
        typed = _words_of(self.field) if words.strip() else self.control.choices[0][1]
        self._tell({word: value for value, word in self.control.choices}.get(typed, typed))

    def add_choice(self, value: Any, words: str) -> None:
        if any(value == known for known, _ in self.control.choices) or not isinstance(self.field, ChoiceBox):
            return
        with QSignalBlocker(self.field):
            self.field.addItem(words)
        self.control = replace(self.control, choices=(*self.control.choices, (value, words)))

    def show_value(self, value: Any) -> None:
        control, field = self.control, self.field
        with QSignalBlocker(field):
            if isinstance(field, ChoiceBox) and control.is_free:
                words = dict(control.choices).get(value, str(value))
                if _words_of(field) != words:  # text that is being typed keeps its cursor
                    field.setEditText(words)
            elif isinstance(field, ChoiceBox):
                values = [known for known, _ in control.choices]
                field.setCurrentIndex(values.index(value) if value in values else -1)
            else:
                field.setValue(number_of(control, value))

    def show_sense(self, state: str, obstacle: str, refusals: dict[Any, str], reason: str = "") -> None:
        """Marks the setting; disables it, or single choices of it, with the reason.

        `reason`: why its value is not in use although the setting could be.
        """
        self.state = state
        self.name.setText(f"{state}{self.control.name}")
        tip = "\n".join(filter(None, (obstacle or reason, self.control.sentence)))
        self.field.setEnabled(not obstacle)
        self.reason.setText(obstacle)
        for widget in (self.field, self.name):
            widget.setToolTip(tip)
        items = self.field.model() if isinstance(self.field, ChoiceBox) and not self.control.is_free else None
        if isinstance(items, QStandardItemModel):
            for place, (value, _) in enumerate(self.control.choices):
                items.item(place).setEnabled(value not in refusals)
                items.item(place).setToolTip(refusals.get(value, ""))


def _words_of(box: QWidget) -> str:
    return box.currentText().strip().lower() if isinstance(box, ChoiceBox) else ""


def _list(control: Setting, themes: ThemeHolder) -> ChoiceBox:
    box = ChoiceBox(themes)
    box.setEditable(control.is_free)
    box.setSizeAdjustPolicy(ChoiceBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
    for _, word in control.choices:
        box.addItem(word)
    return box


def _number(control: Setting) -> QDoubleSpinBox:
    box = QDoubleSpinBox()
    box.setDecimals(control.range.decimals)
    box.setRange(lowest(control), highest(control))
    box.setSingleStep(control.range.step)
    box.setSpecialValueText(control.range.low)
    box.setSuffix(" %" if control.range.is_share else "")
    return box


class SettingsPopover(QFrame):
    """Opens below its button and closes when a click falls outside. Writes into the form, one setting at a time.

    Signals:
        changed(): a setting changed.
        closed(): it was hidden.
    """

    changed = Signal()
    closed = Signal()

    def __init__(self, form: RequestForm, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setProperty("role", "card")
        self.form = form
        self.rows: dict[str, SettingRow] = {}
        self._heads: dict[str, tuple[QLabel, QLabel]] = {}
        self.browse = in_role(QPushButton("Folder of an adapter…"), "link")
        self.advanced = in_role(QPushButton(), "link")
        self.advanced.setCheckable(True)
        self.advanced.toggled.connect(self.refresh)
        parts: list[Part] = []
        for place, heads in enumerate(columns()):
            column = QWidget()
            self._fill(QGridLayout(column), heads, themes)
            parts += [in_role(QFrame(), "vrule"), column] if place else [column]
        self.problem = wrapped("", "bad")
        self.reset = in_role(QPushButton("Reset to defaults"), "link")
        self.reset.clicked.connect(self._reset)
        self.legend = in_role(Label("     ".join(mark + meaning for mark, meaning in _LEGEND)), "small")
        footer = beside(self.legend, 2 * GRID, (self.problem, 1), self.advanced, 2 * GRID, self.reset, spacing=0)
        across = beside(*parts, spacing=GRID + 4)
        stacked(across, rule(), footer, on=self, margins=(2 * GRID, 2 * GRID, 2 * GRID, GRID), spacing=GRID)
        self.refresh()

    def _fill(self, grid: QGridLayout, heads: Sequence[str], themes: ThemeHolder) -> None:
        """A title for each head, and below it a row for each of its settings."""
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(GRID)
        grid.setVerticalSpacing(GRID // 2)
        for head in heads:
            group = [control for control in self.form.controls.values() if control.head == head]
            if group:
                title = section_head(head)
                title.setContentsMargins(0, GRID if grid.rowCount() > 1 else 0, 0, GRID // 2)
                grid.addWidget(title, grid.rowCount(), 0, 1, 2)
                self._heads[head] = title, sentence()
                grid.addWidget(self._heads[head][1], grid.rowCount(), 0, 1, 2)
            for control in group:
                row = self.rows[control.key] = SettingRow(control, themes, grid, grid.rowCount())
                row.changed.connect(self._take)
                if control.key == DRAFTER:
                    self._complete(row, grid)
        grid.setRowStretch(grid.rowCount(), 1)

    def _complete(self, row: SettingRow, grid: QGridLayout) -> None:
        """Adds the bundled adapters to the drafters, and a button below for an own one.

        The button is no entry of the list, because arrow keys and the wheel must not open a dialog.
        """
        self.browse.setToolTip("Drafts with a trained adapter; in the mode KV-adapted, maps caches with one.")
        self.browse.clicked.connect(self._browse)
        grid.addWidget(self.browse, grid.rowCount(), 1)
        if isinstance(row.field, ChoiceBox):
            row.field.view().setMinimumWidth(_LIST_PX)
        for value, words in bundled_choices():
            row.add_choice(value, words)

    def refresh(self, *_: object) -> None:
        """Shows the form's settings as they are, and which of them have no effect now."""
        form = self.form
        changed, idle, here = form.changed, form.idle, form.here
        for key, row in self.rows.items():
            value = form.value(key)
            if key == DRAFTER:
                row.add_choice(value, choice_words(value))
            row.show_value(value)
            state = IDLE if key in idle else PLAIN
            if key in changed:
                is_inexact = row.control.may_change_answer(value) or (key == DRAFTER and value[0] == KV)
                state = INEXACT if is_inexact else CHANGED
            refusals = {choice: form.refusal(key, choice, here) for choice, _ in row.control.choices}
            refusals = {choice: reason for choice, reason in refusals.items() if reason}
            row.show_sense(state, form.obstacle(key, here), refusals, idle.get(key, ""))
        self.reset.setEnabled(bool(changed or idle))
        self.legend.setVisible(bool(changed or idle))
        self._fold({*changed, *idle})

    def _fold(self, touched: set[str]) -> None:
        """Hides advanced settings at their defaults; of a head without effect only the reason is left."""
        is_open = self.advanced.isChecked()
        rare = [key for key, row in self.rows.items() if row.control.is_advanced and key not in touched]
        self.advanced.setText(f"Advanced ({len(rare)}) {'▾' if is_open else '▸'}")
        for head, (title, reason) in self._heads.items():
            rows = {key: row for key, row in self.rows.items() if row.control.head == head}
            shown = {key: row for key, row in rows.items() if is_open or key not in rare}
            reasons = {row.reason.text() for row in shown.values()}
            is_idle = len(reasons) == 1 and "" not in reasons and touched.isdisjoint(shown)
            title.setVisible(bool(shown))
            say(reason, "".join(reasons) if is_idle else "")
            for key, row in rows.items():
                row.show(key in shown and not is_idle)
        self.browse.setVisible(not self.rows[DRAFTER].field.isHidden())

    def open_below(self, widget: QWidget) -> None:
        """Shows itself under its button, right-aligned as far as the screen has room."""
        self.refresh()
        self.resize(self.sizeHint())
        place = widget.mapToGlobal(QPoint(widget.width() - self.width(), widget.height() + GRID // 2))
        self.move(max(place.x(), widget.screen().availableGeometry().left() + GRID), place.y())
        self.show()

    def _browse(self) -> None:
        title = "Choose the folder of a trained adapter"
        if folder := QFileDialog.getExistingDirectory(self.parentWidget(), title):
            self.take_adapter(folder)
            self.show()

    def take_adapter(self, folder: str) -> None:
        """Drafts with the adapter in a folder, or shows why it cannot."""
        try:
            info = read_adapter(folder)
        except UserError as error:
            self.problem.setText(error.sentence)
            return
        self.rows[DRAFTER].add_choice((info.kind, folder), adapter_words(info.kind, info.name))
        self._take(DRAFTER, (info.kind, folder))

    def _take(self, key: str, value: object) -> None:
        self.problem.setText("")
        self.form.take(key, value)
        self.refresh()
        self.changed.emit()

    def _reset(self) -> None:
        self.form.reset()
        self.refresh()
        self.changed.emit()

    def event(self, event: QEvent) -> bool:
        """Keeps the size of what is shown."""
        is_taken = super().event(event)
        if event.type() == QEvent.Type.LayoutRequest:
            self.resize(self.sizeHint())
        return is_taken

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.closed.emit()
