"""One setting in the settings popover: a mark, its name, and the field that changes it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from PySide6.QtCore import QObject, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QPen, QStandardItemModel
from PySide6.QtWidgets import QDoubleSpinBox, QGridLayout, QPushButton, QSpinBox, QWidget

from evprof.core.vocabulary.setting import Setting
from ui.settings.controls import choice_words, highest, lowest, number_of, value_shown
from ui.style.theme import BUTTON_PX, GRID, ThemeHolder
from ui.widgets.boxes import in_role
from ui.widgets.choice_box import ChoiceBox
from ui.widgets.drawn import Drawn
from ui.widgets.label import Label

NAME_PX, FIELD_PX = 14 * GRID, 14 * GRID
_AROUND_PX, _TYPED_AROUND_PX = 37, 48
"""Width of a list's arrow and margins, without and with a line to type into."""

_MOST_PX, _LIST_PX = FIELD_PX + 11 * GRID, 24 * GRID
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
        """Shows PLAIN, CHANGED, INEXACT or IDLE."""
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
        """The width that the field needs, at most _MOST_PX."""
        words = [self._themes.theme.text_width(word) for _, word in self.control.choices]
        around = _TYPED_AROUND_PX if self.control.is_free else _AROUND_PX
        return min(_MOST_PX, max(FIELD_PX, round(max(words, default=0)) + around))

    def show_value(self, value: Any) -> None:
        """Makes the field show a value."""
        was_blocked = self.field.blockSignals(True)
        if isinstance(self.field, ChoiceBox) and self.control.is_free:
            words = dict(self.control.choices).get(value, str(value))
            if _words_of(self.field) != words:  # text that is being typed keeps its cursor
                self.field.setEditText(words)
                self.field.lineEdit().setCursorPosition(0)
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
        """Lists one more choice."""
        if any(value == known for known, _ in self.control.choices) or not isinstance(self.field, ChoiceBox):
            return
        was_blocked = self.field.blockSignals(True)
        self.field.addItem(words)
        self.control = replace(self.control, choices=(*self.control.choices, (value, words)))
        self.field.blockSignals(was_blocked)

    def show_value(self, value: Any) -> None:
        """Makes the field show a value, listed so far or not."""
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
