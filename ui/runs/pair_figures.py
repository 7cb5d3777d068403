"""The comparison: every figure of both columns, their ratio, and where the difference in decoding comes from."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtWidgets import QPushButton, QWidget

from evprof.view.columns import ShownModel
from evprof.view.labels import stages_in
from ui.run_facts import figures
from ui.state.newest_errand import MANY_RUNS, NewestErrand
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import beside, in_role, stacked
from ui.widgets.figure_table import FigureTable, TableRow
from ui.widgets.panel_parts import Disclosure, EmptyState, WordSwitch, say, section_head, sentence

if TYPE_CHECKING:
    from evprof.metrics.comparison.comparability import Comparability

MOST_SETTINGS = 2
"""Settings that differ and are told at once; more are counted, and folded away."""


class ComparisonPanel(QWidget):
    """Metric, A, B, ratio B / A; ratios are coloured only when they say better or worse.

    Signals:
        more_asked(): the comparison window is wanted.
        baseline_asked(QPoint): another run or configuration is to be column A; where on the screen.
    """

    more_asked = Signal()
    baseline_asked = Signal(QPoint)

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._pair: tuple[ShownModel | None, ShownModel | None] = (None, None)
        self._cells: figures.Cells = figures.NO_CELLS
        self._versions: tuple[int, ...] = ()
        self.errand = NewestErrand("evprof-comparison", self)
        self.errand.done.connect(self._show)
        self.basis = WordSwitch([(basis, figures.BASIS_NAMES[basis]) for basis in figures.BASES])
        self.basis.setToolTip("What the totals and the time to the first token count")
        self.basis.chosen.connect(self._take_basis)
        self._asked_basis = ""
        self.table = FigureTable(themes)
        self.table.setAccessibleName("Comparison")
        self.generation = sentence()
        self.match = sentence()
        self.left_out = sentence()
        self.cells = sentence()
        self.differences = sentence("warn")
        self.why = Disclosure("What differs")
        self.settings = sentence()
        self.many_settings = Disclosure("Settings")
        self._empty = EmptyState(
            "Nothing to compare yet",
            "Both models' tokens, stage times, rates and memory appear here side by side. Run side by side, or choose "
            "a run on the left.",
        )
        self.more = in_role(QPushButton("More…"), "link")
        self.more.setCursor(Qt.CursorShape.PointingHandCursor)
        self.more.setToolTip("Compare any number of configurations and sessions (Ctrl+K)")
        self.more.clicked.connect(self.more_asked)
        self.against = in_role(QPushButton(), "chip")
        self.against.setCursor(Qt.CursorShape.PointingHandCursor)
        self.against.setToolTip("What column B is compared with: choose another")
        self.against.clicked.connect(self._ask_baseline)
        head = beside(section_head("Comparison"), None, self.against, self.more, spacing=GRID)
        lines = (self.left_out, self.cells, self.differences, self.why, self.settings, self.many_settings, self.table)
        last = (self.generation, self.match)
        stacked(head, self.basis, self._empty, *lines, *last, on=self, spacing=GRID // 2)
        self._fill()

    def show_columns(self, a: ShownModel | None, b: ShownModel | None, cells: figures.Cells = figures.NO_CELLS) -> None:
        """Compares another pair, or all runs of the cells it stands for."""
        if (a, b) == self._pair and _key(cells) == _key(self._cells):
            self.refresh()
            return
        self._pair, self._cells = (a, b), cells
        self.table.reset_widths()
        # Files of other programs seldom hold a total on every basis; what somebody chose stays.
        self.basis.hold(self._asked_basis or figures.basis_for(a, b))
        self._fill()

    def _take_basis(self, basis: str) -> None:
        self._asked_basis = basis
        self._fill()

    def refresh(self) -> None:
        """Works the figures out again where a run has grown."""
        if tuple(column.run.version for column in self._pair if column) != self._versions:
            self._fill()

    @property
    def _are_over(self) -> bool:
        return all(column.run.info.is_over for column in self._pair if column)

    @property
    def is_busy(self) -> bool:
        """Whether figures are still being worked out."""
        return self.errand.is_busy

    def _ask_baseline(self) -> None:
        self.baseline_asked.emit(self.against.mapToGlobal(self.against.rect().bottomLeft()))

    def _fill(self, *_: object) -> None:
        a, b = self._pair
        self.against.setText(f"vs {figures.runs_of(a, self._cells[0])} ▾")
        self.against.setVisible(a is not None and b is not None and a.run is not b.run)
        self._versions = tuple(column.run.version for column in (a, b) if column)
        excuse = figures.left_out(a, b)
        has_figures = (a is not None or b is not None) and not excuse
        self.basis.setVisible(has_figures)
        self.table.setVisible(has_figures)
        self._empty.setVisible(a is None and b is None)
        say(self.left_out, excuse)
        self.errand.forget()
        if not has_figures:
            for label in (self.cells, self.settings, self.differences, self.generation, self.match):
                say(label, "")
            for folded in (self.why, self.many_settings):
                folded.say("")
            return
        work = partial(_answer, a, b, self._cells, self.basis.key)
        if sum(len(cell.runs) for cell in self._cells if cell is not None) > MANY_RUNS:
            say(self.cells, "Computing the means …")
            self.table.show_rows([], ())
            self.errand.ask(work)
        else:
            self._show(work())

    def _show(self, answer: object) -> None:
        from evprof.metrics.configurations.settings_text import difference_sentence
        from evprof.metrics.configurations.settings_text import differences as settings_differences

        if not isinstance(answer, _Answer):
            return
        a, b, cells, rows, differences, generation, match = answer
        has_spread = any(row.spread for row in rows)
        # A head that names one run would say too little of a mean over several.
        has_means = (
            a is not None and b is not None and a.run is not b.run and any(cell and cell.runs[1:] for cell in cells)
        )
        names = ("A", "B") if has_spread or has_means else figures.column_heads(a, b)
        heads = (*names, "B / A", "± %") if has_spread else (*names, "B / A")
        if self._are_over:
            self.table.reset_widths()
        self.table.show_rows([_table_row(row, has_spread=has_spread) for row in rows], heads)
        say(self.cells, figures.cells_sentence(a, b, cells))
        told, count = difference_sentence(a, b), len(settings_differences(a, b))
        say(self.settings, told if count <= MOST_SETTINGS else "")
        self.many_settings.say(told if count > MOST_SETTINGS else "", f"{count} settings differ")
        say(self.differences, differences.brief if differences else "")
        self.why.say(differences.sentence if differences and not differences.is_comparable else "")
        say(self.generation, generation)
        say(self.match, match)


class _Answer(NamedTuple):
    """Figures and sentences, and whose they are."""

    a: ShownModel | None
    b: ShownModel | None
    cells: figures.Cells
    rows: list[figures.FigureRow]
    differences: Comparability | None
    generation: str
    match: str


def _answer(a: ShownModel | None, b: ShownModel | None, cells: figures.Cells, basis: str) -> _Answer:
    rows = figures.compare(a, b, basis, cells)
    shown = a, b, cells
    generation = figures.generation_sentence(*shown)
    match = figures.match_sentence(*shown)
    return _Answer(*shown, rows, figures.comparability_of(*shown), generation, match)


def _key(cells: figures.Cells) -> tuple[object, ...]:
    """Tells sets of runs apart without comparing what is in them."""
    return tuple(None if cell is None else tuple(run.run_id for run in cell.runs) for cell in cells)


def _table_row(row: figures.FigureRow, *, has_spread: bool) -> TableRow:
    stage = row.metric.removesuffix("_ms")
    return TableRow(
        row.name,
        (row.a, row.b, row.ratio, *([row.spread.removeprefix("±")] if has_spread else [])),  # its head says ±
        unit="" if row.unit == "tokens" else row.unit,
        roles=(
            "dim" if row.a == figures.NOTHING else "",
            "dim" if row.b == figures.NOTHING else "",
            row.judgement or "dim",
            "dim",
        ),
        tip=row.tip + ("\n±: half the 95 % interval of the ratio of means" if row.spread else ""),
        swatch=stage if stages_in(stage) else "",
    )
