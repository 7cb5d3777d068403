"""One setting in the settings popover: a mark, its name, and the field that changes it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QPen, QStandardItemModel
from PySide6.QtWidgets import QDoubleSpinBox, QGridLayout, QPushButton, QSpinBox, QWidget

from evprof.core.vocabulary.setting import Setting
from ui.settings.controls import highest, lowest, number_of, value_shown
from ui.settings.drafter_choice import choice_words
from ui.style.theme import BUTTON_PX, GRID, ThemeHolder
from ui.widgets.boxes import in_role
from ui.widgets.choice_box import ChoiceBox
from ui.widgets.label import Label

NAME_PX, FIELD_PX = 14 * GRID, 14 * GRID
_WIDE_PX = FIELD_PX + 5 * GRID
"""Of a field whose words are long."""

_MOST_PX = FIELD_PX + 12 * GRID
"""Of a field that grows with what is listed in it: the name of an adapter in a folder can be of any length."""

_MOST_LETTERS = 10
"""That can be read beside one another in a field to type into."""

PLAIN, CHANGED, INEXACT, IDLE = "", "changed", "inexact", "idle"
"""What a mark says of a setting: at its default, not so, not so and the answer may change, set but not in use now."""


class SettingMark(QWidget):
    """A dot for a changed setting, a ring for one that is not in use, a wave where the answer may change: told apart
    by shape and colour."""

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self._state = PLAIN
        self.setFixedSize(self.sizeHint())

    @property
    def state(self) -> str:
        """PLAIN, CHANGED, INEXACT or IDLE."""
        return self._state

    def show_state(self, state: str) -> None:
        """Shows another state."""
        if state != self._state:
            self._state = state
            self.update()

    def sizeHint(self) -> QSize:
        return QSize(12, BUTTON_PX)

    def paintEvent(self, _event: QPaintEvent) -> None:
        if self._state == PLAIN:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme = self._themes.theme
        if self._state != INEXACT:
            is_idle = self._state == IDLE
            painter.setPen(QPen(theme.text_dim, 1) if is_idle else Qt.PenStyle.NoPen)
            painter.setBrush(Qt.BrushStyle.NoBrush if is_idle else theme.accent)
            painter.drawEllipse(QRectF(0.5, self.height() / 2 - 2.5, 5, 5))
            return
        painter.setPen(theme.warn)
        painter.setFont(theme.font(weight=600))
        place = QRectF(-2, 0, 12, self.height())
        painter.drawText(place, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, "≈")


_LIST_PX = 24 * GRID


class SettingRow(QWidget):
    """Holds no value of its own: what the field is told to show is never reported as a change.

    Signals:
        changed(str, object): the setting's key and its new value.
    """

    changed = Signal(str, object)

    field_px = FIELD_PX
    """How wide the field has to be."""

    def __init__(self, control: Setting, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.control = control
        if control.is_free and max(len(word) for _, word in control.choices) > _MOST_LETTERS:
            self.field_px = _WIDE_PX
        self.mark = SettingMark(themes)
        self.name = in_role(Label(control.name), "dim")
        self.field = _list(control, themes) if control.choices else _number(control)
        self.field.setFixedHeight(BUTTON_PX)
        self.field.setAccessibleName(control.name)
        self.field.setAccessibleDescription(control.sentence)
        self.name.setBuddy(self.field)
        if isinstance(self.field, ChoiceBox):
            if control.is_free:
                self.field.editTextChanged.connect(self._take_words)
            else:
                self.field.currentIndexChanged.connect(self._take_choice)
        else:
            self.field.valueChanged.connect(self._take_number)
        row = QGridLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setHorizontalSpacing(0)
        row.addWidget(self.mark, 0, 0)
        row.addWidget(self.name, 0, 1)
        row.addWidget(self.field, 0, 2)
        row.setColumnStretch(1, 1)
        row.setColumnMinimumWidth(1, max(NAME_PX, self.name.sizeHint().width() + GRID))

    def show_value(self, value: Any) -> None:
        """Makes the field show a value."""
        was_blocked = self.field.blockSignals(True)
        if isinstance(self.field, ChoiceBox) and self.control.is_free:
            # What is being typed is left as it stands, and the cursor in its place.
            words = dict(self.control.choices).get(value, str(value))
            if _words_of(self.field) != words:
                self.field.setEditText(words)
                if (line := self.field.lineEdit()) is not None:
                    line.setCursorPosition(0)  # longer words show how they begin
        elif isinstance(self.field, ChoiceBox):
            index = next((place for place, (known, _) in enumerate(self.control.choices) if known == value), -1)
            self.field.setCurrentIndex(index)
        elif isinstance(self.field, QDoubleSpinBox):
            self.field.setValue(number_of(self.control, value))
        else:
            self.field.setValue(round(number_of(self.control, value)))
        self.field.blockSignals(was_blocked)

    def show_sense(self, state: str, obstacle: str, refusals: dict[Any, str], reason: str = "") -> None:
        """Marks the setting; greys it, or single choices of it, and says why in the tool tip.

        `reason`: why its value is not in use although the setting could be.
        """
        self.mark.show_state(state)
        self.field.setEnabled(not obstacle)
        self.name.setEnabled(not obstacle)
        tip = "\n".join(filter(None, (obstacle or reason, self.control.sentence)))
        for widget in (self.field, self.name):
            widget.setToolTip(tip)
        if isinstance(self.field, ChoiceBox) and not self.control.is_free:
            items = self.field.model()
            for place, (value, _) in enumerate(self.control.choices):
                if isinstance(items, QStandardItemModel):
                    items.item(place).setEnabled(value not in refusals)
                self.field.setItemData(place, refusals.get(value), Qt.ItemDataRole.ToolTipRole)

    def _take_choice(self, index: int) -> None:
        self.changed.emit(self.control.key, self.control.choices[index][0])

    def _take_words(self, words: str) -> None:
        typed = _words_of(self.field) if words.strip() else self.control.choices[0][1]
        meant = {word: value for value, word in self.control.choices}.get(typed, typed)
        self.changed.emit(self.control.key, meant)

    def _take_number(self, number: float) -> None:
        self.changed.emit(self.control.key, value_shown(self.control, number))


class DrafterRow(SettingRow):
    """The setting of who drafts: its list grows by folders, and a button below it asks for one.

    Signals:
        folder_asked(): the folder of an adapter is to be picked.
    """

    folder_asked = Signal()

    field_px = _WIDE_PX

    def __init__(self, control: Setting, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(control, themes, parent)
        self._value: Any = None
        # A button and no line of the list: arrow keys and the wheel must not open a dialog in passing.
        self.browse = in_role(QPushButton("Folder of an adapter…"), "link")
        self.browse.setToolTip(
            "Drafts with an adapter that you trained, or maps caches with one in the mode KV-adapted."
        )
        self.browse.clicked.connect(self.folder_asked)
        row = self.layout()
        if isinstance(row, QGridLayout):
            row.addWidget(self.browse, 1, 2)
        if isinstance(self.field, ChoiceBox):
            self.field.view().setMinimumWidth(_LIST_PX)

    def add_choice(self, value: Any, words: str) -> None:
        """Lists one more choice."""
        if any(value == known for known, _ in self.control.choices) or not isinstance(self.field, ChoiceBox):
            return
        was_blocked = self.field.blockSignals(True)
        self.field.addItem(words)
        self.field_px = max(self.field_px, min(_MOST_PX, self.field.width_of(words)))
        self.control = replace(self.control, choices=(*self.control.choices, (value, words)))
        self.field.blockSignals(was_blocked)

    def show_value(self, value: Any) -> None:
        """Makes the field show a value, listed so far or not."""
        self._value = value
        self.add_choice(value, choice_words(value))
        super().show_value(value)

    def show_sense(self, state: str, obstacle: str, refusals: dict[Any, str], reason: str = "") -> None:
        """As any setting; the tool tip begins with the whole name of an adapter, for which the field is too short."""
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
    if control.decimals:
        box = QDoubleSpinBox()
        box.setDecimals(control.decimals)
        box.setRange(lowest(control), highest(control))
        box.setSingleStep(control.step)
    else:
        box = QSpinBox()
        box.setRange(round(lowest(control)), round(highest(control)))
        box.setSingleStep(round(control.step))
    box.setSpecialValueText(control.low)
    box.setSuffix(control.suffix)
    box.lineEdit().setTextMargins(-2, 0, 0, 0)
    return box
