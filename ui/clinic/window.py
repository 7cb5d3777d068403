"""The acceptance clinic: every definition with its counts, places and rounds, why drafts failed, and break-even."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Signal
from PySide6.QtWidgets import QPushButton, QTabWidget, QWidget

from evprof.core.records import TARGET
from evprof.core.vocabulary.modes import SPECULATIVE
from evprof.metrics.speculation.failure_modes import Rejection
from evprof.metrics.speculation.outcome import is_lossy
from ui.clinic.break_even import BreakEvenPage
from ui.clinic.pages import Clinic, DefinitionsPage, FailuresPage, clinic_of, key_of
from ui.clinic.plots import HistogramPlot, PlacePlot
from ui.columns.model_column import LOSSY
from ui.state.cells import speculative_run
from ui.state.selection import RoundRef
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import beside, in_role, stacked
from ui.widgets.following import FollowingDialog
from ui.widgets.label import Label
from ui.widgets.panel_parts import EmptyState, say, scrolling, section_head, sentence

_PLACES = (
    "Full bars: accepted of judged, with their counts. Pale bars: accepted of drafted, where all that follows a "
    "rejection is lost. Diamonds: 1 − TV(p, q), the chance that sampling would accept."
)
_HISTOGRAM = "Share of the rounds that accepted this many tokens; above each bar, how many rounds."
_NO_ROUNDS = "This fills with the first verified round."


class PlacesPage(QWidget):
    """Both bar plots, one above the other."""

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.places, self.histogram = PlacePlot(themes), HistogramPlot(themes)
        self.places_caption, self.histogram_caption = sentence("small"), sentence("small")
        ground = QWidget()
        stacked(scrolling(ground), on=self, margins=(0, 2 * GRID, 0, 0))
        column = stacked(
            section_head("Acceptance by place in the draft"),
            (self.places, 3),
            self.places_caption,
            GRID,
            section_head("Accepted tokens per round"),
            (self.histogram, 2),
            self.histogram_caption,
            on=ground,
            spacing=GRID // 2,
        )
        column.addStretch(0)

    def show_clinic(self, clinic: Clinic) -> None:
        """Shows other counts."""
        has_rounds = bool(clinic.histogram)
        self.places.show_positions(clinic.positions)
        self.histogram.show_counts(clinic.histogram)
        for plot in (self.places, self.histogram):
            plot.setVisible(has_rounds)
        say(self.places_caption, _PLACES if has_rounds else _NO_ROUNDS)
        say(self.histogram_caption, _HISTOGRAM if has_rounds else "")


class ClinicDialog(FollowingDialog):
    """Follows the run that speculates in the window's columns. Does not block the window.

    Signals:
        run_asked(str): a run of the sample that is open is wanted, in that mode.
        baseline_asked(object, QPoint): the run whose baseline is to be chosen, and where on the screen.
    """

    run_asked = Signal(str)
    baseline_asked = Signal(object, QPoint)

    heading = "Acceptance clinic"
    least_px, first_px = (640, 480), (920, 660)
    _key: object = None
    clinic: Clinic | None = None

    def make_views(self, themes: ThemeHolder) -> None:
        """Its parts."""
        self.empty = EmptyState(
            "No speculation to examine yet",
            "Every figure that is called acceptance with what it divides, acceptance by place and round, why drafts "
            "were rejected, and the acceptance from which speculation pays appear here. Run a sample in a speculative "
            "mode, or choose such a run on the left of the window.",
            "Run this sample speculatively",
        )
        self.title = in_role(Label(), "title")
        self.badge = in_role(Label("lossy"), "warn-chip")
        self.lossy = sentence("warn")
        self.against = in_role(QPushButton(), "chip")
        self.against.setToolTip("The plain runs that this is weighed against: choose others")
        self.against.clicked.connect(self._ask_baseline)
        head = beside(self.title, self.badge, self.against, None, spacing=GRID)
        self.definitions, self.places = DefinitionsPage(), PlacesPage(themes)
        self.failures, self.break_even = FailuresPage(themes), BreakEvenPage(themes)
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        self.tabs.tabBar().setDrawBase(False)
        self.tabs.setAccessibleName("Parts of the clinic")
        for page, name in (
            (self.definitions, "Definitions"),
            (self.places, "Places and rounds"),
            (self.failures, "Failure modes"),
            (self.break_even, "Break-even"),
        ):
            self.tabs.addTab(page, name)
        self.body = QWidget()
        stacked(head, self.lossy, (self.tabs, 1), on=self.body, spacing=GRID)
        stacked(self.empty, (self.body, 1), on=self, margins=(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID))
        self.empty.activated.connect(lambda: self.run_asked.emit(SPECULATIVE))
        self.break_even.empty.activated.connect(lambda: self.run_asked.emit(TARGET))
        self.failures.round_chosen.connect(self._show_round)

    def show_runs(self) -> None:
        """Shows the run as it is now; cheap when nothing happened to it."""
        run = speculative_run([self._controller.run(run_id) for run_id in self._selection.runs])
        others = list(self._controller.runs.values())
        key = key_of(run, others)
        if self._key is not None and key == self._key:
            return
        self._key = key
        self.empty.setVisible(run is None)
        self.body.setVisible(run is not None)
        self.clinic = None if run is None else clinic_of(run, others)
        self.break_even.show_clinic(self.clinic)
        if self.clinic is None or run is None:
            return
        self.title.setText(self.clinic.title)
        self.badge.setVisible(is_lossy(run))
        self.against.setText(f"vs {self.clinic.against} ▾")
        self.against.setVisible(bool(self.clinic.against))
        say(self.lossy, LOSSY if is_lossy(run) else "")
        self.definitions.show_definitions(self.clinic.definitions)
        self.places.show_clinic(self.clinic)
        facts = run.info.speculation
        has_trees = facts is not None and bool(facts.tree)
        self.failures.show_rejections(self.clinic.rejections, has_rounds=bool(run.rounds), has_trees=has_trees)

    def _ask_baseline(self) -> None:
        if self.clinic is not None:
            place = self.against.mapToGlobal(self.against.rect().bottomLeft())
            self.baseline_asked.emit(self.clinic.run, place)

    def _show_round(self, chosen: Rejection) -> None:
        """Selects the round in which the draft was rejected."""
        if self.clinic is None:
            return
        self._selection.select(RoundRef(self.clinic.run.run_id, chosen.round_index))

    def restyle(self) -> None:
        """The plots."""
        self.places.places.restyle()
        self.places.histogram.restyle()
        self.break_even.restyle()
