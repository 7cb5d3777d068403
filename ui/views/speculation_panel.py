"""Whether the draft paid: acceptance with its counts, and one plain sentence."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QElapsedTimer, Qt
from PySide6.QtWidgets import QVBoxLayout, QWidget

from evprof.core.run_log import RunLog
from evprof.metrics.decoding import decode_ms_per_token
from evprof.metrics.speculation import (
    Acceptance,
    acceptance,
    acceptance_ceiling,
    plain_baseline,
    verdict,
)
from evprof.metrics.speculation_text import speculation_sentence
from ui.models.figures import NOTHING
from ui.theme import GRID, ThemeHolder
from ui.views.figure_table import FigureTable, TableRow
from ui.views.panel_parts import ToneLabel, section_head

INTERVAL_MS = 250


class SpeculationPanel(QWidget):
    """Shown for speculative runs only; hides itself for others."""

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._run: RunLog | None = None
        self._version = -1
        self._age = QElapsedTimer()
        self.table = FigureTable(themes)
        self.table.setAccessibleName("Draft acceptance")
        self.verdict = ToneLabel(wraps=True, alignment=Qt.AlignmentFlag.AlignLeft)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(GRID // 2)
        column.addWidget(section_head("Draft acceptance"))
        column.addWidget(self.table)
        column.addWidget(self.verdict)
        self.hide()

    def show_run(self, run: RunLog | None, others: Iterable[RunLog] = ()) -> None:
        """Shows a run's speculation, weighed against the plain runs among `others`. Cheap when nothing happened."""
        # An imported file gives no rounds; what it says of acceptance stands among its figures.
        has_rounds = run is not None and (run.info.imported is None or bool(run.rounds))
        counts = acceptance(run) if run is not None and has_rounds else None
        self.setVisible(counts is not None)
        if run is None or counts is None:
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
        self.table.show_rows(_rows(counts))
        self.verdict.say(speculation_sentence(run, listed), self._judgement(run, listed))

    def _judgement(self, run: RunLog, others: list[RunLog]) -> str:
        baseline = plain_baseline(run, others)
        found = verdict(run, decode_ms_per_token(baseline)) if baseline else None
        return "dim" if found is None else "good" if found.pays else "warn"


def _rows(counts: Acceptance) -> list[TableRow]:
    rate, length, chance = counts.draft_acceptance_rate, counts.mean_acceptance_length, counts.token_acceptance_rate
    ceiling = None if chance is None else acceptance_ceiling(chance)
    return [
        TableRow(
            "accepted / drafted",
            (f"{counts.accepted} / {counts.drafted}", NOTHING if rate is None else f"{rate:.1%}"),
            tip="draft acceptance rate: the bonus token is not counted",
        ),
        TableRow(
            "mean acceptance length",
            ("", NOTHING if length is None else f"{length:.2f}"),
            tip=f"1 + accepted / rounds, over {counts.rounds} rounds: the bonus token is counted",
            has_line=False,
        ),
        TableRow(
            "ceiling α / (1 − α)",
            ("", NOTHING if ceiling is None else f"{ceiling:.2f}"),
            unit="tokens per round",
            tip="accepted tokens per round that no number of drafted tokens can exceed; "
            + ("nothing was judged yet" if chance is None else f"α = {chance:.1%} of the judged tokens were accepted"),
            has_line=False,
        ),
    ]
