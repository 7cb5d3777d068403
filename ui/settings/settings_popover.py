"""The popover with all settings of a run in columns, and the row of each setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from PySide6.QtCore import QObject, QPoint, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QHideEvent, QPainter, QPaintEvent, QPen, QStandardItemModel
from PySide6.QtWidgets import (
    QDoubleSpinBox,
    QFileDialog,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QPushButton,
    QSpinBox,
    QWidget,
)

from evprof.core.errors import UserError
from evprof.core.vocabulary.drafters import KV
from evprof.core.vocabulary.setting import Setting, Situation
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
from ui.widgets.drawn import Drawn
from ui.widgets.label import Label
from ui.widgets.panel_parts import section_head

NAME_PX, FIELD_PX = 14 * GRID, 14 * GRID
_AROUND_PX, _TYPED_AROUND_PX = 37, 48
"""Width of a list's arrow and margins, without and with a line to type into."""

_MOST_PX, _LIST_PX = FIELD_PX + 11 * GRID + 4, 24 * GRID
"""Widest field, and least width of the drafters' list: names of adapters can be long."""

PLAIN, CHANGED, INEXACT, IDLE = "", "changed", "inexact", "idle"
"""At its default; changed; changed so that the answer may change; changed but not in use now."""


class SettingMark(Drawn):
    """A dot for a changed setting, a ring for one that is not in use, a wave where the answer may change."""

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(themes, parent)
        self.state = PLAIN
        self.setFixedSize(QSize(12, BUTTON_PX))

    def show_state(self, state: str) -> None:
        if state != self.state:
            self.state = state
            self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        theme, painter = self._themes.theme, QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self.state == INEXACT:
            painter.setPen(theme.warn)
            painter.setFont(theme.font(weight=600))
            painter.drawText(QRectF(-2, 0, 12, self.height()), Qt.AlignmentFlag.AlignVCenter, "≈")
        elif self.state != PLAIN:
            is_idle = self.state == IDLE
            painter.setPen(QPen(theme.text_dim, 1) if is_idle else Qt.PenStyle.NoPen)
            painter.setBrush(Qt.BrushStyle.NoBrush if is_idle else theme.accent)
            painter.drawEllipse(QRectF(0.5, self.height() / 2 - 2.5, 5, 5))


class SettingRow(QObject):
    """Puts its widgets into a row of a grid. It holds no value: showing one reports no change.

    Signals:
        changed(str, object): the setting's key and its new value.
    """

    changed = Signal(str, object)

    def __init__(self, control: Setting, themes: ThemeHolder, grid: QGridLayout, place: int) -> None:
        super().__init__(grid)
        self.control = control
        self._themes = themes
        self.mark = SettingMark(themes)
        self.name = in_role(Label(control.name), "dim")
        self.field = _list(control, themes) if control.choices else _number(control)
        self.field.setFixedHeight(BUTTON_PX)
        self.field.setAccessibleName(control.name)
        self.field.setAccessibleDescription(control.sentence)
        self.name.setBuddy(self.field)
        self.name.setContentsMargins(0, 0, GRID, 0)
        if not isinstance(self.field, ChoiceBox):
            self.field.valueChanged.connect(self._take_number)
        elif control.is_free:
            self.field.editTextChanged.connect(self._take_words)
        else:
            self.field.currentIndexChanged.connect(self._take_choice)
        for column, widget in enumerate((self.mark, self.name, self.field)):
            grid.addWidget(widget, place, column)

    @property
    def field_px(self) -> int:
        words = [self._themes.theme.text_width(word) for _, word in self.control.choices]
        around = _TYPED_AROUND_PX if self.control.is_free else _AROUND_PX
        return min(_MOST_PX, max(FIELD_PX, round(max(words, default=0)) + around))

    def show_value(self, value: Any) -> None:
        was_blocked = self.field.blockSignals(True)
        if isinstance(self.field, ChoiceBox) and self.control.is_free:
            words = dict(self.control.choices).get(value, str(value))
            if _words_of(self.field) != words:  # text that is being typed keeps its cursor
                self.field.setEditText(words)
                if (line := self.field.lineEdit()) is not None:
                    line.setCursorPosition(0)
        elif isinstance(self.field, ChoiceBox):
            values = [known for known, _ in self.control.choices]
            self.field.setCurrentIndex(values.index(value) if value in values else -1)
        elif isinstance(self.field, QDoubleSpinBox):
            self.field.setValue(number_of(self.control, value))
        else:
            self.field.setValue(round(number_of(self.control, value)))
        self.field.blockSignals(was_blocked)

    def show_sense(self, state: str, obstacle: str, refusals: dict[Any, str], reason: str = "") -> None:
        """Marks the setting; disables it, or single choices of it, and says why in the tool tip.

        `reason`: why its value is not in use although the setting could be.
        """
        self.mark.show_state(state)
        tip = "\n".join(filter(None, (obstacle or reason, self.control.sentence)))
        for widget in (self.field, self.name):
            widget.setEnabled(not obstacle)
            widget.setToolTip(tip)
        items = self.field.model() if isinstance(self.field, ChoiceBox) and not self.control.is_free else None
        if isinstance(items, QStandardItemModel):
            for place, (value, _) in enumerate(self.control.choices):
                items.item(place).setEnabled(value not in refusals)
                items.item(place).setToolTip(refusals.get(value, ""))

    def _take_choice(self, index: int) -> None:
        self.changed.emit(self.control.key, self.control.choices[index][0])

    def _take_words(self, words: str) -> None:
        typed = _words_of(self.field) if words.strip() else self.control.choices[0][1]
        self.changed.emit(self.control.key, {word: value for value, word in self.control.choices}.get(typed, typed))

    def _take_number(self, number: float) -> None:
        self.changed.emit(self.control.key, value_shown(self.control, number))


class DrafterRow(SettingRow):
    """The setting of the drafter: its list grows by folders, and a button below it asks for one.

    Signals:
        folder_asked(): the user wants to pick the folder of an adapter.
    """

    folder_asked = Signal()

    def __init__(self, control: Setting, themes: ThemeHolder, grid: QGridLayout, place: int) -> None:
        super().__init__(control, themes, grid, place)
        self._value: Any = None
        # A button and not an entry of the list: arrow keys and the wheel must not open a dialog.
        self.browse = in_role(QPushButton("Folder of an adapter…"), "link")
        self.browse.setToolTip(
            "Drafts with an adapter that you trained, or maps caches with one in the mode KV-adapted."
        )
        self.browse.clicked.connect(self.folder_asked)
        grid.addWidget(self.browse, place + 1, 2)
        if isinstance(self.field, ChoiceBox):
            self.field.view().setMinimumWidth(_LIST_PX)

    def add_choice(self, value: Any, words: str) -> None:
        if any(value == known for known, _ in self.control.choices) or not isinstance(self.field, ChoiceBox):
            return
        was_blocked = self.field.blockSignals(True)
        self.field.addItem(words)
        self.control = replace(self.control, choices=(*self.control.choices, (value, words)))
        self.field.blockSignals(was_blocked)

    def show_value(self, value: Any) -> None:
        self._value = value
        self.add_choice(value, choice_words(value))
        super().show_value(value)

    def show_sense(self, state: str, obstacle: str, refusals: dict[Any, str], reason: str = "") -> None:
        """As any setting; the tool tip begins with the whole name of an adapter."""
        super().show_sense(state, obstacle, refusals, reason)
        if self._value is not None and self._value[1] is not None:
            self.field.setToolTip(f"{choice_words(self._value)}\n{self.field.toolTip()}")


def _words_of(box: QWidget) -> str:
    return box.currentText().strip().lower() if isinstance(box, ChoiceBox) else ""


def _list(control: Setting, themes: ThemeHolder) -> ChoiceBox:
    box = ChoiceBox(themes)
    box.setEditable(control.is_free)
    for _, word in control.choices:
        box.addItem(word)
    return box


def _number(control: Setting) -> QSpinBox | QDoubleSpinBox:
    box: QSpinBox | QDoubleSpinBox
    if control.range.decimals:
        box = QDoubleSpinBox()
        box.setDecimals(control.range.decimals)
        box.setRange(lowest(control), highest(control))
        box.setSingleStep(control.range.step)
    else:
        box = QSpinBox()
        box.setRange(round(lowest(control)), round(highest(control)))
        box.setSingleStep(round(control.range.step))
    box.setSpecialValueText(control.range.low)
    box.setSuffix(" %" if control.range.is_share else "")
    box.lineEdit().setTextMargins(-2, 0, 0, 0)
    return box


_LEGEND = (
    (CHANGED, "not at its default"),
    (INEXACT, "an optimization that may change the answer"),
    (IDLE, "set, but not in use now"),
)


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
        self._themes = themes
        self.rows: dict[str, SettingRow] = {}
        self._columns: list[list[SettingRow]] = []
        parts: list[Part] = []
        for place, heads in enumerate(columns()):
            column = QWidget()
            self._fill(QGridLayout(column), heads)
            parts += [in_role(QFrame(), "vrule"), column] if place else [column]
        across = beside(*parts, spacing=GRID + 4)
        stacked(across, rule(), self._footer(), on=self, margins=(2 * GRID, 2 * GRID, 2 * GRID, GRID), spacing=GRID)
        self.refresh()

    def _fill(self, grid: QGridLayout, heads: Sequence[str]) -> None:
        """A title for each head, and below it a row for each of its settings."""
        rows: list[SettingRow] = []
        self._columns.append(rows)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(0)
        grid.setVerticalSpacing(GRID // 2)
        grid.setColumnStretch(1, 1)
        grid.setColumnMinimumWidth(1, NAME_PX)
        for head in heads:
            group = [control for control in self.form.controls.values() if control.head == head]
            if not group:
                continue
            title = section_head(head)
            title.setContentsMargins(12, GRID if grid.rowCount() > 1 else 0, 0, GRID // 2)
            grid.addWidget(title, grid.rowCount(), 0, 1, 3)
            for control in group:
                kind = DrafterRow if control.key == DRAFTER else SettingRow
                row = self.rows[control.key] = kind(control, self._themes, grid, grid.rowCount())
                row.changed.connect(self._take)
                rows.append(row)
                if isinstance(row, DrafterRow):
                    self.drafter = row
                    row.folder_asked.connect(self._browse)
                    for value, words in bundled_choices():
                        row.add_choice(value, words)
        grid.setRowStretch(grid.rowCount(), 1)

    def _footer(self) -> QHBoxLayout:
        parts: list[Part] = []
        for state, meaning in _LEGEND:
            mark = SettingMark(self._themes)
            mark.show_state(state)
            label = in_role(Label(meaning), "small")
            parts += [mark, label, 2 * GRID]
        self.problem = in_role(Label(), "bad")
        self.problem.setWordWrap(True)
        self.reset = in_role(QPushButton("Reset to defaults"), "link")
        self.reset.clicked.connect(self._reset)
        return beside(*parts, (self.problem, 1), self.reset, spacing=0)

    def refresh(self) -> None:
        """Shows the form's settings as they stand, and what of them makes no sense just now."""
        changed, idle, here = self.form.changed, self.form.idle, self.form.here
        for key, row in self.rows.items():
            value = self.form.value(key)
            row.show_value(value)
            state = IDLE if key in idle else PLAIN
            if key in changed:
                state = INEXACT if row.control.may_change_answer(value) else CHANGED
            if key == DRAFTER and value[0] == KV and key in changed:
                state = INEXACT
            row.show_sense(state, self.form.obstacle(key, here), self._refusals(row.control, here), idle.get(key, ""))
        self.reset.setEnabled(bool(changed or idle))
        for rows in self._columns:  # one edge for all fields below each other
            widest = max(row.field_px for row in rows)
            for row in rows:
                row.field.setFixedWidth(widest)

    def _refusals(self, control: Setting, here: Situation) -> dict[Any, str]:
        found = {value: self.form.refusal(control.key, value, here) for value, _ in control.choices}
        return {value: reason for value, reason in found.items() if reason}

    def open_below(self, widget: QWidget) -> None:
        """Shows itself under its button, its right end at the button's, as far as the screen has room there."""
        self.refresh()
        self.resize(self.sizeHint())
        place = widget.mapToGlobal(QPoint(widget.width() - self.width(), widget.height() + GRID // 2))
        room = widget.screen().availableGeometry()
        self.move(max(place.x(), room.left() + GRID), place.y())
        self.show()

    def _browse(self) -> None:
        folder = QFileDialog.getExistingDirectory(self.parentWidget(), "Choose the folder of a trained adapter")
        if folder:
            self.take_adapter(folder)
            self.show()

    def take_adapter(self, folder: str) -> None:
        """Drafts with the adapter in a folder; says what is wrong with one that is none."""
        try:
            info = read_adapter(folder)
        except UserError as error:
            self.problem.setText(error.sentence)
            return
        self.drafter.add_choice((info.kind, folder), adapter_words(info.kind, info.name))
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

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.closed.emit()
