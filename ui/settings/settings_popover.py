"""The popover with everything that can be set about a run, in columns: run, speculation, input, optimizations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import QFileDialog, QFrame, QGridLayout, QHBoxLayout, QPushButton, QWidget

from evprof.core.errors import UserError
from evprof.core.vocabulary.drafters import KV
from evprof.core.vocabulary.setting import Setting, Situation
from evprof.loaders.adapters import read_adapter
from ui.settings.controls import DRAFTER, adapter_words, bundled_choices, columns
from ui.settings.request_form import RequestForm
from ui.settings.setting_row import CHANGED, IDLE, INEXACT, NAME_PX, PLAIN, DrafterRow, SettingMark, SettingRow
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import Part, beside, in_role, stacked
from ui.widgets.label import Label
from ui.widgets.layout import rule
from ui.widgets.panel_parts import section_head

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
        across = beside(*parts, spacing=2 * GRID)
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
