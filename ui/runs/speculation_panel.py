"""Whether the draft paid: acceptance with its counts, and one plain sentence."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QElapsedTimer, Qt, Signal
from PySide6.QtWidgets import QPushButton, QWidget

from evprof.core.run_log import RunLog
from evprof.core.vocabulary.modes import mode_of
from evprof.metrics.configurations.baselines import repeats_of
from evprof.metrics.estimates.estimates import ProcessSpread
from evprof.metrics.speculation.outcome import FEWEST_REJECTIONS, Acceptance, AcceptanceCeiling, acceptance, ceiling_of
from evprof.metrics.speculation.payoff import payoff_of
from evprof.metrics.speculation.verdicts import speculation_sentence
from evprof.run.kept_repeatability import spread_for
from ui.run_facts.figures import NOTHING
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import in_role, stacked
from ui.widgets.figure_table import FigureTable, TableRow
from ui.widgets.panel_parts import ToneLabel, section_head

INTERVAL_MS = 250

_HEAD, _LOSSY_HEAD = "Draft acceptance", "Adapted cache · lossy"


class SpeculationPanel(QWidget):
    """Shown for runs that speculate or adapt a cache; hides itself for others.

    Signals:
        clinic_asked(): the button for every definition, failures and break-even was pressed.
    """

    clinic_asked = Signal()

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._run: RunLog | None = None
        self._version = -1
        self._age = QElapsedTimer()
        self.table = FigureTable(themes)
        self.table.setAccessibleName("Draft acceptance")
        self.verdict = ToneLabel(wraps=True, alignment=Qt.AlignmentFlag.AlignLeft)
        column = stacked(on=self, spacing=GRID // 2)
        self.head = section_head(_HEAD)
        self.clinic = in_role(QPushButton("Acceptance clinic…"), "link")
        self.clinic.setCursor(Qt.CursorShape.PointingHandCursor)
        self.clinic.setToolTip("Every definition of acceptance, why drafts failed, and break-even (Ctrl+Shift+A)")
        self.clinic.clicked.connect(self.clinic_asked)
        column.addWidget(self.head)
        column.addWidget(self.table)
        column.addWidget(self.verdict)
        column.addWidget(self.clinic, 0, Qt.AlignmentFlag.AlignLeft)
        self.hide()

    def show_run(self, run: RunLog | None, others: Iterable[RunLog] = ()) -> None:
        """Shows a run's speculation, weighed against the plain runs among `others`. Cheap when nothing happened."""
        # An imported file gives no rounds; what it says of acceptance stands among its figures.
        has_rounds = run is not None and (run.info.imported is None or bool(run.rounds))
        counts = acceptance(run) if run is not None and has_rounds else None
        is_adapted = run is not None and mode_of(run.info.mode).maps_cache
        self.setVisible(counts is not None or is_adapted)
        if run is None or not (counts is not None or is_adapted):
            self._run = None
            return
        same = run is self._run
        if same and run.version == self._version:
            return
        if same and not run.info.is_over and self._age.isValid() and self._age.elapsed() < INTERVAL_MS:
            return
        self._run, self._version = run, run.version
        self._age.start()
        listed = list(others)
        self.head.setText((_HEAD if counts is not None else _LOSSY_HEAD).upper())
        self.table.show_rows([] if counts is None else _rows(counts, ceiling_of(repeats_of(run, listed))))
        self.table.setVisible(counts is not None)
        processes = spread_for(run)
        self.verdict.say(speculation_sentence(run, listed, processes), self._judgement(run, listed, processes))

    def _judgement(self, run: RunLog, others: list[RunLog], processes: ProcessSpread | None) -> str:
        if mode_of(run.info.mode).maps_cache:
            return "warn"
        payoff = payoff_of(run, others, processes)
        if payoff is None or payoff.whole is None or not payoff.is_clear:
            return "dim"
        return "good" if payoff.whole.speedup > 1 else "warn"


def _rows(counts: Acceptance, ceiling: AcceptanceCeiling | None) -> list[TableRow]:
    rate, length = counts.draft_acceptance_rate, counts.mean_acceptance_length
    hidden = counts.hidden_accepted / counts.hidden_drafted if counts.hidden_drafted else None
    of_window = TableRow(
        "hidden accepted / drafted",
        (f"{counts.hidden_accepted} / {counts.hidden_drafted}", NOTHING if hidden is None else f"{hidden:.1%}"),
        tip="of what was drafted while the target's prefill went on",
        has_line=False,
    )
    return [
        TableRow(
            "accepted / drafted",
            (f"{counts.accepted} / {counts.drafted}", NOTHING if rate is None else f"{rate:.1%}"),
            tip="draft acceptance rate: the bonus token is not counted",
        ),
        *([of_window] if counts.hidden_drafted else []),
        TableRow(
            "mean acceptance length",
            ("", NOTHING if length is None else f"{length:.2f}"),
            tip=f"1 + accepted / rounds, over {counts.rounds} rounds: the bonus token is counted",
            has_line=False,
        ),
        TableRow(
            "ceiling α / (1 − α)",
            ("", NOTHING if ceiling is None else f"{ceiling.value:.2f}"),
            unit="tokens per round",
            tip=_ceiling_tip(ceiling),
            has_line=False,
        ),
    ]


def _ceiling_tip(ceiling: AcceptanceCeiling | None) -> str:
    if ceiling is None:
        return f"Fewer than {FEWEST_REJECTIONS} different rejections: too few to tell."
    low, high = ceiling.interval
    ends = f"{low:.2f} to {'no limit' if high is None else f'{high:.2f}'}"
    return (
        "Accepted tokens per round that no number of drafted tokens can exceed, if tokens are accepted independently "
        f"of each other; 95 % interval {ends}, from {ceiling.rejections} rejections."
    )
