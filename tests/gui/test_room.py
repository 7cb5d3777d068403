"""Where room is short: what is shortened, and by which rule; that nothing lies upon something else."""

from __future__ import annotations

from itertools import pairwise

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QWidget

from evprof.core.records import STAGES
from evprof.core.run_log import RunLog
from evprof.view.labels import stage_labels
from kept import Keep
from ui.style.theme import ThemeHolder
from ui.widgets.boxes import stacked
from ui.widgets.figure_table import ROW, FigureTable, TableRow
from ui.widgets.message_bar import MessageBar
from ui.widgets.panel_parts import say, scrolling, sentence
from ui.window.actions import WindowActions


def test_a_panel_that_comes_to_the_front_covers_no_message(themes: ThemeHolder, application, keep) -> None:
    window = keep(QWidget())
    ground, panel, bar = QWidget(), QWidget(), MessageBar(themes)
    panel.setParent(ground)
    stacked(ground, 0, on=window)
    bar.float_over(ground)
    window.resize(600, 400)
    window.show()
    bar.post("A sentence that somebody has to read.")
    panel.setGeometry(0, 0, 600, 400)
    panel.show()
    panel.raise_()
    application.processEvents()
    found = window.childAt(QPoint(300, window.height() - 8))
    assert found is bar or bar.isAncestorOf(found)
    window.resize(500, 300)
    application.processEvents()
    assert bar.geometry().bottom() == ground.geometry().bottom()
    assert bar.width() == ground.width()


@pytest.mark.parametrize("words", ["", "A sentence whose height follows from the width it has, on a line or on three."])
def test_parts_that_scroll_never_lie_upon_one_another(themes: ThemeHolder, application, words: str, keep) -> None:
    tables = [FigureTable(themes) for _ in range(3)]
    for table in tables:
        table.show_rows([TableRow(f"row {number}", ("1", "2")) for number in range(6)])
    told, ground = sentence(), QWidget()
    stacked(told, *tables, None, on=ground)
    area = keep(scrolling(ground))
    area.resize(300, 140)
    area.show()
    say(told, words)
    application.processEvents()
    assert all(one.geometry().bottom() < other.geometry().top() for one, other in pairwise(tables))
    assert [table.height() for table in tables] == [6 * ROW] * 3
    assert (told.geometry().bottom() < tables[0].geometry().top()) == bool(words)


def test_stages_are_never_abbreviated(runs: dict[int, RunLog]) -> None:
    for stage in (*STAGES, "vision+prefill"):
        assert all(stage.replace("+", " + ") in text for text in stage_labels(runs[1], "draft", stage, 1_000_000))


def test_the_menu_fits_a_low_screen(keep: Keep) -> None:
    """Qt breaks one that is too high into two columns, of which the second looks like another menu."""
    window = keep(QWidget())
    menu = WindowActions(window).menu(window)
    assert menu.actionGeometry(menu.actions()[0]).left() == menu.actionGeometry(menu.actions()[-1]).left()
    assert sum(menu.actionGeometry(action).height() for action in menu.actions()) <= 720 - 24
