"""A table of figures draws no more of itself than has changed, and all of that."""

from __future__ import annotations

import random

import pytest
from PySide6.QtCore import QEvent, QObject, QRect
from PySide6.QtGui import QRegion
from PySide6.QtWidgets import QApplication

from ui.style.theme import ThemeHolder
from ui.widgets.figure_table import FigureTable, TableRow

NAMES = ("Decode", "Time to first token", "A name that is too long to stand beside its figures at this width")
CELLS = ("1.0", "22.5", "–", "123,456.7")


class Painted(QObject):
    """Watches which part of a widget is painted."""

    def __init__(self, widget: FigureTable) -> None:
        super().__init__(widget)
        self.region = QRegion()
        widget.installEventFilter(self)

    def eventFilter(self, _widget: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Paint:
            self.region |= event.region()  # type: ignore[attr-defined]  # a paint event has one
        return False


def _rows(choice: random.Random, before: list[TableRow]) -> list[TableRow]:
    if before and choice.random() < 0.6:
        place = choice.randrange(len(before))
        changed = TableRow(before[place].name, (choice.choice(CELLS), choice.choice(CELLS)))
        return [*before[:place], changed, *before[place + 1 :]]
    names = choice.choices(NAMES, k=choice.randint(1, 6))
    return [
        TableRow(name, (choice.choice(CELLS), "2"), has_line=choice.random() < 0.5, bar=choice.choice([None, 0.4]))
        for name in names
    ]


@pytest.mark.parametrize("seed", range(12))
def test_what_is_not_painted_anew_looks_as_before(seed: int, themes: ThemeHolder, application: QApplication) -> None:
    choice, table = random.Random(seed), FigureTable(themes)
    table.resize(220, 100)
    rows: list[TableRow] = []
    table.show()
    painted = Painted(table)
    for _ in range(15):
        before = table.grab().toImage()
        painted.region = QRegion()
        rows = _rows(choice, rows)
        table.show_rows(rows, ("A", "B"))
        application.processEvents()
        region, after = painted.region, table.grab().toImage()
        for y in range(min(before.height(), after.height())):
            if not region.intersects(QRect(0, y, table.width(), 1)):
                assert before.copy(0, y, 220, 1) == after.copy(0, y, 220, 1)
    table.hide()
    table.deleteLater()


def test_a_figure_that_changes_costs_its_row(themes: ThemeHolder, application: QApplication) -> None:
    table = FigureTable(themes)
    table.resize(300, 100)
    rows = [TableRow(name, ("10", "20")) for name in "abcd"]
    table.show_rows(rows)
    table.show()
    application.processEvents()
    painted = Painted(table)
    table.show_rows([*rows[:2], TableRow("c", ("11", "20")), rows[3]])
    application.processEvents()
    height = table.height() // len(rows)
    assert painted.region.boundingRect() == QRect(0, 2 * height, table.width(), height)
    table.hide()
    table.deleteLater()
