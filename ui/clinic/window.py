"""The acceptance clinic: every definition with its counts, the first rejections of rounds, and break-even."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPoint, QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QHeaderView, QPushButton, QTableWidget, QTableWidgetItem, QWidget

from evprof.core.records import TARGET
from evprof.core.run_log import RunLog
from evprof.core.units import percent_text
from evprof.core.vocabulary.modes import SPECULATIVE, mode_of
from evprof.metrics.configurations.baselines import is_counted, repeats_of, runs_text
from evprof.metrics.configurations.settings_text import run_label
from evprof.metrics.speculation.clinic import SHARE, Definition, definitions_over, plain_answer
from evprof.metrics.speculation.failure_modes import KINDS, Rejection, counts, first_rejections
from evprof.metrics.speculation.outcome import distinct_answers, is_lossy
from evprof.metrics.speculation.payoff import DECODE, Prediction, payoff_of, prediction_for
from evprof.metrics.speculation.verdicts import speculation_verdict
from ui.clinic.break_even import BreakEvenPlot, WhatIf, WhatIfSliders
from ui.columns.model_column import LOSSY
from ui.run_facts.run_text import NOTHING, chance_text, judgement_of, piece_text, run_title
from ui.state.cells import speculative_run
from ui.state.selection import RoundRef
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import beside, in_role, stacked
from ui.widgets.following import FollowingDialog
from ui.widgets.label import Label
from ui.widgets.panel_parts import EmptyState, ToneLabel, say, section_head, sentence
from ui.widgets.record_table import text_table

DEFINITION_HEADS = ("Figure", "Formula", "Counts", "Value")
REJECTION_HEADS = ("round", "place", "draft", "p of draft", "p of target", "target instead", "p of target", "kind")

_DIFFERENT_COUNTS = "These figures divide different counts: do not compare them with each other."
_NONE, _NONE_SHOWN = "No speculation to examine yet", "No run that speculates is shown"
_RUN_ONE = "Run a sample in a speculative mode."
_NO_PLAIN = "Break-even needs a run with rounds, and a run of the target alone on the same sample."
_CAPTION = (
    "Line: predicted from rounds with {} drafted tokens, extrapolated elsewhere. Square: measured, with its 95 % "
    "interval. Circle: the sliders."
)
_MOST_LISTED = 2000
"""Rejections in the table."""


@dataclass(frozen=True)
class Clinic:
    """Figures of a run. Definitions are over all its repeats, where equal answers count once; rejections are its own.

    `judgement` is the role of `sentence`. `against` names the runs of the baseline, "" without any.
    """

    run: RunLog
    repeats: int
    definitions: tuple[Definition, ...]
    rejections: tuple[Rejection, ...]
    prediction: Prediction | None
    sentence: str
    judgement: str
    against: str = ""

    @property
    def title(self) -> str:
        """The run and the number of its repeats."""
        more = f"{self.repeats} repeats taken together" if self.repeats > 1 else ""
        return " · ".join(filter(None, (run_title(self.run), run_label([self.run]), more)))


def clinic_of(run: RunLog, others: Sequence[RunLog]) -> Clinic:
    """The figures of a run, compared with the other runs of its session."""
    runs = repeats_of(run, others)
    if run not in runs:
        runs = [run]
    payoff = payoff_of(run, others) if is_counted(run.info) else None
    return Clinic(
        run,
        len(runs),
        tuple(definitions_over([(entry, plain_answer(entry, others)) for entry in distinct_answers(runs)])),
        tuple(first_rejections(run)),
        prediction_for(payoff) if payoff else None,
        speculation_verdict(run, others, payoff).sentence,
        judgement_of(run, payoff),
        payoff.baseline.words if payoff else "",
    )


def definition_cells(entry: Definition) -> tuple[str, ...]:
    """Name, formula with a note, both counts, and the value."""
    note = f"\n{entry.note[:1].upper()}{entry.note[1:]}." if entry.note else ""
    has_counts = entry.numerator is not None and entry.denominator
    counted = f"{entry.numerator:,g} / {entry.denominator:,g}" if has_counts else NOTHING
    value = NOTHING if entry.value is None else f"{entry.value:.2f}"
    if entry.value is not None and entry.unit == SHARE:
        value = percent_text(entry.value, 1)
    return entry.name, f"{entry.formula}{note}", counted, value


def rejection_cells(entry: Rejection) -> tuple[str, ...]:
    """The cells under REJECTION_HEADS."""
    return (
        str(entry.round_index + 1),
        str(entry.position),
        piece_text(entry.draft_piece),
        chance_text(entry.draft_chance),
        chance_text(entry.cross_chance),
        piece_text(entry.target_piece),
        chance_text(entry.target_chance),
        entry.kind,
    )


def _fill(table: QTableWidget, rows: Sequence[Sequence[str]]) -> None:
    with QSignalBlocker(table):
        table.setRowCount(len(rows))
        for row, texts in enumerate(rows):
            for column, text in enumerate(texts):
                table.setItem(row, column, QTableWidgetItem(text))


class ClinicDialog(FollowingDialog):
    """Follows the run that speculates in the window's columns.

    Signals:
        run_asked(str): a run of the open sample in that mode is requested.
        baseline_asked(object, QPoint): the run whose baseline the user wants to choose, and a place on the screen.
    """

    run_asked = Signal(str)
    baseline_asked = Signal(object, QPoint)

    heading = "Acceptance clinic"
    least_px, first_px = (640, 560), (920, 760)
    _key: object = None
    clinic: Clinic | None = None

    def make_views(self, themes: ThemeHolder) -> None:
        self.empty = EmptyState(_NONE, _RUN_ONE, "Run this sample speculatively")
        self.title = in_role(Label(), "title")
        self.badge = in_role(Label("lossy"), "warn-chip")
        self.lossy = sentence("warn")
        self.against = in_role(QPushButton(), "chip")
        self.against.setToolTip("The runs of the baseline: choose others")
        self.against.clicked.connect(self._ask_baseline)
        self.sentence = ToneLabel(wraps=True, alignment=Qt.AlignmentFlag.AlignLeft)
        self.plot, self.sliders, self.caption = BreakEvenPlot(themes), WhatIfSliders(), sentence("small")
        self.break_even, self.no_plain = QWidget(), EmptyState("", _NO_PLAIN, "Run the target alone")
        stacked(beside((self.plot, 1), self.sliders, spacing=2 * GRID), on=self.break_even)
        self.definitions = text_table("Definitions of acceptance", DEFINITION_HEADS, (1,))
        self.definitions.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        self.rejections = text_table("First rejections", REJECTION_HEADS, (2, 5))
        for table in (self.definitions, self.rejections):
            table.setSelectionBehavior(QTableWidget.SelectionBehavior.SelectRows)
            table.setWordWrap(True)
        self.warning, self.counts = sentence("warn-bar"), sentence("small")
        self.body = QWidget()
        stacked(
            beside(self.title, self.badge, self.against, None, spacing=GRID),
            self.lossy,
            self.sentence,
            (self.break_even, 3),
            self.caption,
            self.no_plain,
            section_head("Definitions of acceptance"),
            self.warning,
            (self.definitions, 3),
            section_head("First rejections"),
            self.counts,
            (self.rejections, 2),
            on=self.body,
            spacing=GRID,
        )
        stacked(self.empty, (self.body, 1), on=self, margins=(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID))
        self.empty.activated.connect(lambda: self.run_asked.emit(SPECULATIVE))
        self.no_plain.activated.connect(lambda: self.run_asked.emit(TARGET))
        self.rejections.currentCellChanged.connect(self._show_round)
        self.sliders.changed.connect(self._show_state)

    def show_runs(self) -> None:
        """Shows the run; returns early when nothing changed."""
        run = speculative_run([self._controller.run(run_id) for run_id in self._selection.runs])
        others = list(self._controller.runs.values())
        over = sum(other.info.is_over for other in others)
        key = None if run is None else (id(run), run.version, len(others), over)
        if self._key is not None and key == self._key:
            return
        is_same = self.clinic is not None and self.clinic.run is run
        self._key = key
        self.empty.setVisible(run is None)
        self.body.setVisible(run is not None)
        self.clinic = None if run is None else clinic_of(run, others)
        if self.clinic is None or run is None:
            known = runs_text(other.run_id for other in others if speculative_run([other]))
            self.empty.say(*((_NONE_SHOWN, f"Choose one in the list: {known}.") if known else (_NONE, _RUN_ONE)))
            return
        self.title.setText(self.clinic.title)
        self.badge.setVisible(is_lossy(run))
        self.against.setText(f"vs {self.clinic.against} ▾")
        self.against.setVisible(bool(self.clinic.against))
        say(self.lossy, LOSSY if is_lossy(run) else "")
        _fill(self.definitions, list(map(definition_cells, self.clinic.definitions)))
        say(self.warning, _DIFFERENT_COUNTS if len(self.clinic.definitions) > 1 else "")
        _fill(self.rejections, list(map(rejection_cells, self.clinic.rejections[:_MOST_LISTED])))
        counted = counts(self.clinic.rejections)
        say(self.counts, ", ".join(f"{counted[kind]:,} {kind}" for kind in KINDS))
        found, old = self.clinic.prediction, self.plot.state if is_same else None
        self.break_even.setVisible(found is not None)
        say(self.caption, _CAPTION.format(" or ".join(map(str, found.costs.rounds))) if found else "")
        self.no_plain.setVisible(not self.clinic.against and is_counted(run.info) and not is_lossy(run))
        if found is None:
            self.sentence.say(self.clinic.sentence, self.clinic.judgement)
        else:
            state = WhatIf(found, old.gamma, old.alpha) if old is not None else WhatIf(found)
            self.sliders.show_state(state)
            self._show_state(state)

    def _show_state(self, state: WhatIf) -> None:
        if self.clinic is None:
            return
        shown = (state.sentence, "dim") if state.is_assumed else (self.clinic.sentence, self.clinic.judgement)
        self.sentence.say(*shown)
        # With hidden drafts, decoding begins with tokens that no round gave.
        is_hidden = mode_of(self.clinic.run.info.mode).is_parallel
        self.plot.show_state(state, None if is_hidden else state.measured.measured.get(DECODE))

    def _ask_baseline(self) -> None:
        if self.clinic is not None:
            place = self.against.mapToGlobal(self.against.rect().bottomLeft())
            self.baseline_asked.emit(self.clinic.run, place)

    def _show_round(self, row: int, *_: int) -> None:
        """Selects the round of a rejection."""
        if self.clinic is not None and 0 <= row < len(self.clinic.rejections):
            self._selection.select(RoundRef(self.clinic.run.run_id, self.clinic.rejections[row].round_index))
