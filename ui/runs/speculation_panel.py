"""Whether the draft paid: acceptance with its counts, and one plain sentence."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtWidgets import QPushButton, QWidget

from evprof.core.run_log import RunLog
from evprof.core.vocabulary.modes import mode_of
from evprof.run.requests import requests_beside
from ui.run_facts.run_text import NOTHING, judgement_of
from ui.runs.run_entries import against_of
from ui.runs.run_remarks import BOTH_IN_TURNS, counted_state
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import in_role, stacked
from ui.widgets.figure_table import FigureTable, TableRow
from ui.widgets.panel_parts import Disclosure, ToneLabel, section_head

_HEAD, _LOSSY_HEAD = "Draft acceptance", "Adapted cache · lossy"


class SpeculationPanel(QWidget):
    """Shown for runs that speculate or adapt a cache; hides itself for others.

    The number and its meaning come first, beside the baseline; the reasons are folded away.

    Signals:
        clinic_asked(): the button for every definition, failures and break-even was pressed.
        baseline_asked(object, QPoint): the run whose baseline is to be chosen, and where on the screen.
        measuring_asked(object): a list of RunRequest whose runs are wanted beside what is shown.
    """

    clinic_asked = Signal()
    baseline_asked = Signal(object, QPoint)
    measuring_asked = Signal(object)

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._run: RunLog | None = None
        self._state: object = None
        self.head = section_head(_HEAD)
        self.table = FigureTable(themes)
        self.table.setAccessibleName("Draft acceptance")
        self.against = in_role(QPushButton(), "chip")
        self.against.setToolTip("The runs of the baseline: choose others")
        self.against.clicked.connect(self._ask_baseline)
        self.verdict = ToneLabel(wraps=True, alignment=Qt.AlignmentFlag.AlignLeft)
        self.why = Disclosure("Why")
        self.turns = QPushButton(BOTH_IN_TURNS)
        self.turns.setToolTip("Runs this and the target by itself on this sample, in a random order in each turn")
        self.turns.clicked.connect(self._ask_turns)
        self.clinic = in_role(QPushButton("Acceptance clinic…"), "link")
        self.clinic.setToolTip("Every definition of acceptance, why drafts failed, and break-even (Ctrl+Shift+A)")
        self.clinic.clicked.connect(self.clinic_asked)
        buttons = (self.against, self.turns, self.clinic)
        parts = (self.head, self.table, self.against, self.verdict, self.why, *buttons[1:])
        column = stacked(*parts, on=self, spacing=GRID // 2)
        for button in buttons:
            column.setAlignment(button, Qt.AlignmentFlag.AlignLeft)
        for button in (self.against, self.clinic):
            button.setCursor(Qt.CursorShape.PointingHandCursor)
        self.hide()

    def show_run(self, run: RunLog | None, runs: Mapping[int, RunLog] | None = None) -> None:
        """Shows a run's speculation against the plain runs among `runs`; cheap when nothing changed."""
        from evprof.metrics.configurations.baselines import is_counted, repeats_of
        from evprof.metrics.speculation.outcome import acceptance
        from evprof.metrics.speculation.payoff import payoff_of
        from evprof.metrics.speculation.verdicts import speculation_verdict

        # An imported file may have no rounds; its acceptance stands among its figures.
        has_rounds = run is not None and (run.info.imported is None or bool(run.rounds))
        counts = acceptance(run) if run is not None and has_rounds else None
        is_adapted = run is not None and mode_of(run.info.mode).maps_cache
        self.setVisible(counts is not None or is_adapted)
        self._run = run if counts is not None or is_adapted else None
        if self._run is None:
            return
        run, known = self._run, runs or {}
        state = (id(run), run.version, counted_state(known))
        if state == self._state:
            return
        self._state = state
        self.head.setText((_HEAD if counts is not None else _LOSSY_HEAD).upper())
        self.table.show_rows([] if counts is None else _rows(run, repeats_of(run, known.values())))
        self.table.setVisible(counts is not None)
        payoff = payoff_of(run, known.values()) if is_counted(run.info) else None
        verdict = speculation_verdict(run, list(known.values()), payoff)
        self.verdict.say(verdict.head, judgement_of(run, payoff))
        self.why.say(verdict.why)
        self.against.setText("" if payoff is None else f"{against_of(payoff, [run.run_id])} ▾")
        self.against.setVisible(payoff is not None)
        self.turns.setVisible(run.info.is_over and run.info.imported is None and verdict.lacks_turns)

    def _ask_baseline(self) -> None:
        if self._run is not None:
            self.baseline_asked.emit(self._run, self.against.mapToGlobal(self.against.rect().bottomLeft()))

    def _ask_turns(self) -> None:
        if self._run is not None:
            self.measuring_asked.emit(requests_beside(self._run))


def _rows(run: RunLog, repeats: list[RunLog]) -> list[TableRow]:
    """Counts beside their rate, then what they mean."""
    from evprof.metrics.facts import acceptance_facts

    found = {fact.name: fact for fact in acceptance_facts(run, repeats)}
    rows = [
        TableRow(
            name,
            (found[name].text, found[rate].text if rate in found else NOTHING if rate else ""),
            tip=found[name].origin,
        )
        for name, rate in (
            ("accepted / drafted", "acceptance rate"),
            ("accepted / drafted nodes", ""),
            ("hidden accepted / drafted", "hidden acceptance rate"),
        )
        if name in found
    ]
    for name in ("mean acceptance length", "ceiling 1 / (1 − α)"):
        rows.append(TableRow(name, ("", found[name].text or NOTHING), unit="bonus counted", tip=found[name].origin))
    return rows
