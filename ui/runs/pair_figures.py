"""The comparison panel: every figure of both columns, and their ratio."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QPushButton, QWidget

from evprof.metrics.figures.stages import BASES
from evprof.view.labels import stages_in
from ui.run_facts.figures import (
    BASIS_NAMES,
    NO_CELLS,
    Cells,
    Column,
    FigureRow,
    PairFigures,
    basis_for,
    heads_of,
    left_out,
    pair_figures,
)
from ui.run_facts.run_text import NOTHING
from ui.state.newest_errand import MANY_RUNS, NewestErrand
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import beside, in_role, stacked
from ui.widgets.figure_table import FigureTable, TableRow
from ui.widgets.panel_parts import Disclosure, EmptyState, WordSwitch, say, section_head, sentence

MOST_SETTINGS = 2
"""Differing settings that are shown at once; more are folded away."""


class ComparisonPanel(QWidget):
    """Metric, A, B, ratio B / A; ratios are coloured only where the interval says better or worse.

    Signals:
        more_asked(): the comparison window is wanted.
        explained(str): why one column takes longer than the other; "" while that is not known.
    """

    more_asked, explained = Signal(), Signal(str)

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._pair: tuple[Column, Column] = (None, None)
        self._cells: Cells = NO_CELLS
        self._versions: tuple[int, ...] = ()
        self.errand = NewestErrand("evprof-comparison", self)
        self.errand.done.connect(self._show)
        self.basis = WordSwitch([(basis, BASIS_NAMES[basis]) for basis in BASES])
        self.basis.setToolTip("What the totals and the time to the first token count")
        self.basis.chosen.connect(self._choose_basis)
        self._chosen_basis = ""
        self.table = FigureTable(themes)
        self.table.setAccessibleName("Comparison")
        self.left_out, self.means, self.differences = sentence(), sentence(), sentence("warn")
        self.settings = sentence()
        self.why, self.many_settings = Disclosure("What differs"), Disclosure("Settings")
        self._empty = EmptyState(
            "Nothing to compare yet",
            "Both models' tokens, stage times, rates and memory appear here side by side. Run side by side, or choose "
            "a run on the left.",
        )
        self.more = in_role(QPushButton("More…"), "link")
        self.more.setCursor(Qt.CursorShape.PointingHandCursor)
        self.more.setToolTip("Compare any number of configurations and sessions (Ctrl+K)")
        self.more.clicked.connect(self.more_asked)
        head = beside(section_head("Comparison"), None, self.more, spacing=GRID)
        lines = (self.left_out, self.means, self.differences, self.why, self.settings, self.many_settings, self.table)
        stacked(head, self.basis, self._empty, *lines, on=self, spacing=GRID // 2)
        self._fill()

    def show_columns(self, a: Column, b: Column, cells: Cells = NO_CELLS) -> None:
        """Compares another pair, or all runs that its columns stand for."""
        if (a, b) == self._pair and _key(cells) == _key(self._cells):
            self.refresh()
            return
        self._pair, self._cells = (a, b), cells
        self.table.reset_widths()
        # Files of other programs seldom hold a total on every basis; a chosen basis stays.
        self.basis.hold(self._chosen_basis or basis_for(a, b))
        self._fill()

    def _choose_basis(self, basis: str) -> None:
        self._chosen_basis = basis
        self._fill()

    def refresh(self) -> None:
        """Computes the figures again if a run has grown."""
        if tuple(column.run.version for column in self._pair if column) != self._versions:
            self._fill()

    @property
    def is_busy(self) -> bool:
        return self.errand.is_busy

    def _fill(self) -> None:
        a, b = self._pair
        self._versions = tuple(column.run.version for column in (a, b) if column)
        excuse = left_out(a, b)
        has_figures = (a is not None or b is not None) and not excuse
        self.basis.setVisible(has_figures)
        self.table.setVisible(has_figures)
        self._empty.setVisible(a is None and b is None)
        say(self.left_out, excuse)
        self.errand.forget()
        work = partial(pair_figures, a, b, self.basis.key, self._cells)
        if not has_figures:
            self._show(PairFigures([]))
        elif sum(len(cell.runs) for cell in self._cells if cell is not None) > MANY_RUNS:
            self._show(PairFigures([], means="Computing the means …"))
            self.errand.ask(work)
        else:
            self._show(work())

    def _show(self, result: object) -> None:
        if not isinstance(result, PairFigures):
            return
        if all(column.run.info.is_over for column in self._pair if column):
            self.table.reset_widths()
        first, second = heads_of(*self._pair)
        self.table.show_rows(list(map(_table_row, result.rows)), (first, second, f"{second} / {first}"))
        self.explained.emit(result.why)
        say(self.means, result.means)
        settings, count = " · ".join(result.settings), len(result.settings)
        say(self.settings, settings if count <= MOST_SETTINGS else "")
        self.many_settings.say(settings if count > MOST_SETTINGS else "", f"{count} settings differ")
        differences = result.differences
        say(self.differences, differences.brief if differences else "")
        self.why.say(differences.sentence if differences and not differences.is_comparable else "")


def _key(cells: Cells) -> tuple[object, ...]:
    return tuple(None if cell is None else tuple(run.run_id for run in cell.runs) for cell in cells)


def _table_row(row: FigureRow) -> TableRow:
    stage = row.metric.removesuffix("_ms")
    return TableRow(
        row.name,
        (row.a, row.b, row.ratio),
        unit="" if row.unit == "tokens" else row.unit,
        roles=("dim" if row.a == NOTHING else "", "dim" if row.b == NOTHING else "", row.judgement or "dim"),
        tip=row.tip,
        swatch=stage if stages_in(stage) else "",
    )
