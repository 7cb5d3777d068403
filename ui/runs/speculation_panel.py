"""Whether the draft paid: acceptance with its counts, and one plain sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtWidgets import QPushButton, QWidget

from evprof.core.run_log import RunLog
from evprof.core.units import count_text, percent_text
from evprof.core.vocabulary.modes import mode_of
from evprof.run.again import request_again
from ui.run_facts.figures import NOTHING
from ui.run_facts.judgement import judgement_of
from ui.runs.baseline_menu import ALONE_REPEATS, TARGET_ALONE
from ui.runs.payoffs import Payoffs
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import beside, in_role, put_parts, stacked
from ui.widgets.disclosure import Disclosure
from ui.widgets.figure_table import FigureTable, TableRow
from ui.widgets.panel_parts import ToneLabel, section_head

if TYPE_CHECKING:
    from evprof.metrics.speculation.outcome import Acceptance, AcceptanceCeiling


_HEAD, _LOSSY_HEAD = "Draft acceptance", "Adapted cache · lossy"


class SpeculationPanel(QWidget):
    """Shown for runs that speculate or adapt a cache; hides itself for others.

    The number and what it means come first, beside what it is weighed against; what that rests on is folded away.

    Signals:
        clinic_asked(): the button for every definition, failures and break-even was pressed.
        baseline_asked(object, QPoint): the run whose baseline is to be chosen, and where on the screen.
        measuring_asked(object): a RunRequest whose runs are wanted beside what is shown.
    """

    clinic_asked = Signal()
    baseline_asked = Signal(object, QPoint)
    measuring_asked = Signal(object)

    def __init__(self, themes: ThemeHolder, payoffs: Payoffs | None = None, parent: QWidget | None = None) -> None:
        """`payoffs` are those of the list of runs: what is worked out there is not worked out here again."""
        super().__init__(parent)
        self._payoffs = payoffs or Payoffs()
        self._run: RunLog | None = None
        self._runs: Mapping[int, RunLog] = {}
        self._state: object = None
        self.table = FigureTable(themes)
        self.table.setAccessibleName("Draft acceptance")
        self.against = in_role(QPushButton(), "chip")
        self.against.setCursor(Qt.CursorShape.PointingHandCursor)
        self.against.setToolTip("The plain runs that this is weighed against: choose others")
        self.against.clicked.connect(self._ask_baseline)
        self.verdict = ToneLabel(wraps=True, alignment=Qt.AlignmentFlag.AlignLeft)
        self.why = Disclosure("Why")
        self.alone = _button(TARGET_ALONE, "Measures the target by itself on this sample with the same settings")
        self.alone.clicked.connect(self._ask_alone)
        self.again = _button("Run this again ×3", "Measures the same three times more")
        self.again.clicked.connect(self._ask_again)
        column = stacked(on=self, spacing=GRID // 2)
        self.head = section_head(_HEAD)
        self.clinic = in_role(QPushButton("Acceptance clinic…"), "link")
        self.clinic.setCursor(Qt.CursorShape.PointingHandCursor)
        self.clinic.setToolTip("Every definition of acceptance, why drafts failed, and break-even (Ctrl+Shift+A)")
        self.clinic.clicked.connect(self.clinic_asked)
        column.addWidget(self.head)
        column.addWidget(self.table)
        against = beside(self.against, None)
        column.addLayout(against)
        put_parts(against)
        column.addWidget(self.verdict)
        column.addWidget(self.why)
        column.addWidget(self.alone, 0, Qt.AlignmentFlag.AlignLeft)
        column.addWidget(self.again, 0, Qt.AlignmentFlag.AlignLeft)
        column.addWidget(self.clinic, 0, Qt.AlignmentFlag.AlignLeft)
        self.hide()

    def show_run(self, run: RunLog | None, runs: Mapping[int, RunLog] | None = None) -> None:
        """Shows a run's speculation, weighed against the plain runs among `runs`. Cheap when nothing happened."""
        from evprof.metrics.speculation.outcome import acceptance

        # An imported file gives no rounds; what it says of acceptance stands among its figures.
        has_rounds = run is not None and (run.info.imported is None or bool(run.rounds))
        counts = acceptance(run) if run is not None and has_rounds else None
        is_adapted = run is not None and mode_of(run.info.mode).maps_cache
        self.setVisible(counts is not None or is_adapted)
        self._run, self._runs = (run if counts is not None or is_adapted else None), runs or {}
        if self._run is None:
            return
        self._fill()

    def _fill(self) -> None:
        from evprof.metrics.speculation.outcome import acceptance, ceiling_of
        from evprof.metrics.speculation.verdicts import speculation_verdict

        run = self._run
        if run is None:
            return
        self._payoffs.look(self._runs)
        state = (id(run), run.version, self._payoffs.state)
        if state == self._state:
            return
        self._state = state
        counts = acceptance(run)
        self.head.setText((_HEAD if counts is not None else _LOSSY_HEAD).upper())
        self.table.show_rows([] if counts is None else _rows(counts, ceiling_of(self._payoffs.pool_of(run))))
        self.table.setVisible(counts is not None)
        payoff = self._payoffs.of(run) if run.info.is_over else None
        verdict = speculation_verdict(run, list(self._runs.values()), payoff)
        self.verdict.say(verdict.head, judgement_of(run, payoff))
        self.why.say(verdict.why)
        self.against.setText("" if payoff is None else f"vs {payoff.baseline.words} ▾")
        self.against.setVisible(payoff is not None)
        is_ours = run.info.is_over and run.info.imported is None
        self.alone.setVisible(is_ours and verdict.lacks_plain)
        self.again.setVisible(is_ours and verdict.lacks_own)

    def _ask_baseline(self) -> None:
        if self._run is not None:
            place = self.against.mapToGlobal(self.against.rect().bottomLeft())
            self.baseline_asked.emit(self._run, place)

    def _ask_alone(self) -> None:
        if self._run is not None:
            self.measuring_asked.emit(request_again(self._run, "target", ALONE_REPEATS))

    def _ask_again(self) -> None:
        if self._run is not None:
            self.measuring_asked.emit(request_again(self._run, self._run.info.mode, ALONE_REPEATS))


def _button(text: str, tip: str) -> QPushButton:
    button = QPushButton(text)
    button.setToolTip(tip)
    button.hide()
    return button


def _rows(counts: Acceptance, ceiling: AcceptanceCeiling | None) -> list[TableRow]:
    rate, length = counts.draft_acceptance_rate, counts.mean_acceptance_length
    hidden = counts.hidden_accepted / counts.hidden_drafted if counts.hidden_drafted else None
    of_window = TableRow(
        "hidden accepted / drafted",
        (
            f"{counts.hidden_accepted:,} / {counts.hidden_drafted:,}",
            NOTHING if hidden is None else percent_text(hidden, 1),
        ),
        tip="of what was drafted while the target's prefill went on",
        has_line=False,
    )
    return [
        TableRow(
            "accepted / drafted",
            (f"{counts.accepted:,} / {counts.drafted:,}", NOTHING if rate is None else percent_text(rate, 1)),
            tip="draft acceptance rate: the bonus token is not counted",
        ),
        *([of_window] if counts.hidden_drafted else []),
        TableRow(
            "mean acceptance length",
            ("", NOTHING if length is None else f"{length:.2f}"),
            tip=f"1 + accepted / rounds, over {count_text(counts.rounds, 'round')}: the bonus token is counted",
            has_line=False,
        ),
        TableRow(
            "ceiling α / (1 − α)",
            ("", NOTHING if ceiling is None else f"{ceiling.value:.2f}"),
            unit="bonus left out",
            tip=_ceiling_tip(ceiling),
            has_line=False,
        ),
    ]


def _ceiling_tip(ceiling: AcceptanceCeiling | None) -> str:
    from evprof.metrics.speculation.outcome import FEWEST_REJECTIONS

    if ceiling is None:
        return f"Fewer than {FEWEST_REJECTIONS} different rejections: too few to tell."
    low, high = ceiling.interval
    ends = f"{low:.2f} to {'no limit' if high is None else f'{high:.2f}'}"
    return (
        "Accepted tokens per round that no number of drafted tokens can exceed, if tokens are accepted independently "
        f"of each other; 95 % interval {ends}, from {ceiling.rejections} rejections."
    )
