"""Every figure that is called acceptance, with what it divides; two that are ticked are held against each other."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QCheckBox, QGridLayout, QLabel, QSizePolicy, QWidget

from evprof.metrics.speculation.clinic import Definition, warning
from ui.clinic.figures import counts_text, value_text
from ui.style.theme import GRID
from ui.widgets.boxes import in_role, stacked
from ui.widgets.label import Label
from ui.widgets.layout import rule
from ui.widgets.panel_parts import scrolling, section_head, sentence

_TEACHES = "Tick two figures to be told whether they may be compared."
_ONE = "Tick another figure to compare it with the {name}."
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignTop


class DefinitionList(QWidget):
    """Rows of a grid: a box with the name, what is divided by what, both counts, the value.

    Signals:
        chosen(object): the names of the figures that are ticked, in order of ticking.
    """

    chosen = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._definitions: tuple[Definition, ...] = ()
        self._chosen: list[str] = []
        self.boxes: dict[str, QCheckBox] = {}
        self._formulas: dict[str, tuple[QLabel, ...]] = {}
        self._cells: list[QWidget] = []
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, GRID, 0)
        self._grid.setHorizontalSpacing(2 * GRID)
        self._grid.setVerticalSpacing(2)
        self._grid.setColumnStretch(1, 1)

    def show_definitions(self, definitions: Sequence[Definition]) -> None:
        """Shows other figures; what is ticked stays ticked where it is still there."""
        if tuple(definitions) == self._definitions:
            return
        names = [entry.name for entry in definitions]
        if names == [entry.name for entry in self._definitions]:
            # The rows stay: whoever ticks one with the keyboard keeps his place.
            self._definitions = tuple(definitions)
            self._write()
            return
        self._definitions = tuple(definitions)
        self._chosen = [name for name in self._chosen if name in names]
        for cell in self._cells:
            cell.hide()
            self._grid.removeWidget(cell)
            cell.deleteLater()
        self._cells.clear()
        self.boxes.clear()
        self._formulas.clear()
        self._make_rows()
        self._write()

    def _make_rows(self) -> None:
        for column, text in enumerate(("Figure", "Divides", "Counts", "Value")):
            head = section_head(text)
            head.setAlignment(_RIGHT if column > 1 else Qt.AlignmentFlag.AlignLeft)
            self._put(head, 0, column)
        for place, entry in enumerate(self._definitions):
            row = 3 * place + 2
            line = rule()
            self._grid.addWidget(line, row - 1, 0, 1, 4, Qt.AlignmentFlag.AlignVCenter)
            self._grid.setRowMinimumHeight(row - 1, GRID)
            self._cells.append(line)
            box = QCheckBox(entry.name)
            box.setAccessibleName(f"Compare the {entry.name}")
            box.setChecked(entry.name in self._chosen)
            box.toggled.connect(lambda is_on, name=entry.name: self._tick(name, is_on))
            self.boxes[entry.name] = box
            self._put(box, row, 0)
            self._formulas[entry.name] = tuple(self._wrapped(role) for role in ("", "small"))
            for below, label in enumerate(self._formulas[entry.name]):
                self._grid.addWidget(label, row + below, 1)
            for column, role in ((2, "dim"), (3, "title")):
                label = in_role(Label(), role)
                label.setAlignment(_RIGHT)
                label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
                self._put(label, row, column)

    def _wrapped(self, role: str) -> QLabel:
        label = in_role(Label(), role)
        label.setWordWrap(True)
        label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        self._cells.append(label)
        return label

    def _put(self, cell: QWidget, row: int, column: int) -> None:
        self._grid.addWidget(cell, row, column, Qt.AlignmentFlag.AlignTop)
        self._cells.append(cell)

    def _write(self) -> None:
        for place, entry in enumerate(self._definitions):
            row = 3 * place + 2
            for column, text in ((2, counts_text(entry)), (3, value_text(entry))):
                item = self._grid.itemAtPosition(row, column)
                label = None if item is None else item.widget()
                if isinstance(label, QLabel):
                    label.setText(text)
            note = f"{entry.note[:1].upper()}{entry.note[1:]}." if entry.note else ""
            formula, below = self._formulas[entry.name]
            formula.setText(entry.formula)
            below.setText(note)
            below.setVisible(bool(note))
            self.boxes[entry.name].setAccessibleDescription(
                f"{entry.formula}: {counts_text(entry)} = {value_text(entry)}. {note}"
            )

    def _tick(self, name: str, is_on: bool) -> None:
        self._chosen = [other for other in self._chosen if other != name]
        if is_on:
            self._chosen.append(name)
        if len(self._chosen) > 2:
            oldest = self._chosen.pop(0)
            self.boxes[oldest].blockSignals(True)
            self.boxes[oldest].setChecked(False)
            self.boxes[oldest].blockSignals(False)
        self.chosen.emit(tuple(self._chosen))

    def chosen_pair(self) -> tuple[Definition, ...]:
        """The ticked figures, in order of ticking."""
        by_name = {entry.name: entry for entry in self._definitions}
        return tuple(by_name[name] for name in self._chosen if name in by_name)


class DefinitionsPage(QWidget):
    """The list, and above it the bar that warns of two figures that divide different counts."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.list = DefinitionList()
        self.hint = sentence("small")
        self.warning = sentence("warn-bar")
        self.warning.setAccessibleName("Warning")
        ground = QWidget()
        stacked(self.list, None, on=ground)
        slot = QWidget()
        slot.setMinimumHeight(4 * GRID + 2)
        stacked(self.warning, self.hint, on=slot)
        stacked(slot, (scrolling(ground), 1), on=self, margins=(0, GRID, 0, 0), spacing=GRID)
        self.list.chosen.connect(self._judge)
        self._judge()

    def show_definitions(self, definitions: Sequence[Definition]) -> None:
        """Shows other figures."""
        self.list.show_definitions(definitions)
        self._judge()

    def _judge(self, *_: object) -> None:
        pair = self.list.chosen_pair()
        said = warning(*pair) if len(pair) == 2 else None
        self.warning.setText(said or "")
        self.warning.setVisible(bool(said))
        teaches = _TEACHES if len(self.list.boxes) > 1 else ""
        hint = teaches if not pair else _ONE.format(name=pair[0].name) if len(pair) == 1 else ""
        self.hint.setText(hint)
        self.hint.setVisible(bool(hint))
