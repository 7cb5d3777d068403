"""Section: parallel prefill, that is drafts made while the target prefills: its window, what it cost, the net gain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from evprof.core.run_log import RunLog
from evprof.core.vocabulary.modes import mode_of
from evprof.export.report.data import ReportData
from evprof.export.report.figures import count_cell, ms_cell, share_text
from evprof.export.report.parts import Badge, Cell, Paragraph, Section, Table, not_available
from evprof.export.report.sections.evidence import names_of, saved_cell
from evprof.metrics.arithmetic.statistics import summarize
from evprof.metrics.configurations.gathering import SampleKey, by_sample, sample_key
from evprof.metrics.speculation.outcome import AcceptanceCeiling, ceiling_of, distinct_answers
from evprof.metrics.speculation.parallel_prefill import ParallelPrefillFigures, window_of
from evprof.metrics.speculation.payoff import Payoff, payoff_over
from evprof.metrics.speculation.verdicts import payoff_sentence

TITLE = "Drafts inside the prefill"

LESSON = (
    "Gain = saved steps - verification - contention. Contention is how much longer the target's own stages take while "
    "the draft computes beside them. If tokens are accepted independently of each other, one block gives a/(1-a) "
    "accepted tokens at most, however long the window is."
)


def section(data: ReportData) -> Section:
    """A row and a sentence per configuration, over all of its samples."""
    names = names_of(data)
    rows, said = [], []
    for column in data.columns:
        info = column.runs[0].info
        if not mode_of(info.mode).is_parallel or info.imported is not None:
            continue
        found = _windows(column.runs, by_sample(data.beside(column)))
        payoff = payoff_over(column.runs, data.beside(column), data.processes)
        rows.append(_row(names[id(column)], found, payoff))
        said.append(_sentence(names[id(column)], column.runs, payoff))
    if not rows:
        return Section(TITLE, missing="No run drafted inside a prefill; run --mode parallel-prefill.")
    heads = (
        "configuration",
        "window, from prefill",
        "window, from load",
        "left for drafting",
        "hidden drafted",
        "hidden accepted",
        "contention",
        "verification",
        "predicted gain",
        "saved an answer",
        "runs against plain",
    )
    table = Table(heads, tuple(rows), caption="Means over runs; contention and gains against the target alone")
    return Section(TITLE, (Paragraph(LESSON), table, *(Paragraph(text, badge=Badge.DERIVED) for text in said)))


def _windows(runs: Sequence[RunLog], known: Mapping[SampleKey, Sequence[RunLog]]) -> list[ParallelPrefillFigures]:
    found = (window_of(run, known.get(sample_key(run), ())) for run in runs)
    return [window for window in found if window is not None]


def _row(name: str, found: Sequence[ParallelPrefillFigures], payoff: Payoff | None) -> tuple[Cell, ...]:
    def cell(read: Callable[[ParallelPrefillFigures], float | None], badge: Badge = Badge.MEASURED) -> Cell:
        return ms_cell(summarize([value for window in found if (value := read(window)) is not None]), badge)

    return (
        Cell(name),
        cell(lambda window: window.prefill_ms),
        cell(lambda window: window.with_load_ms),
        cell(lambda window: window.left_ms),
        count_cell(summarize([float(window.drafted) for window in found])),
        count_cell(summarize([float(window.accepted) for window in found])),
        cell(lambda window: window.stage_contention_ms, Badge.DERIVED),
        cell(lambda window: window.verify_ms),
        cell(lambda window: window.predicted_gain_ms, Badge.DERIVED),
        saved_cell(payoff),
        Cell(f"{len(payoff.runs)} against {payoff.baseline.words}") if payoff else not_available(),
    )


def _sentence(name: str, runs: Sequence[RunLog], payoff: Payoff | None) -> str:
    distinct = distinct_answers(runs)
    hidden = [entry for run in distinct for entry in run.rounds if entry.hidden]
    drafted, accepted = sum(entry.drafted for entry in hidden), sum(entry.accepted for entry in hidden)
    verdict = payoff_sentence(payoff) if payoff else "the target was not run alone on these samples."
    if not drafted:
        return f"{name}: {verdict} Nothing was drafted inside the prefill."
    share = f"{accepted} of {drafted} hidden tokens were accepted ({share_text(accepted / drafted)})"
    return f"{name}: {verdict} In {_answers(len(distinct))}, {share}{_ceiling(ceiling_of(runs, hidden_only=True))}."


def _answers(count: int) -> str:
    return "1 answer" if count == 1 else f"{count} different answers"


def _ceiling(found: AcceptanceCeiling | None) -> str:
    if found is None:
        return ""
    low, high = found.interval
    ends = f"[{low:.1f}, {'∞' if high is None else f'{high:.1f}'}]"
    return f"; if acceptances are independent, no window gets more than {found.value:.1f} {ends} accepted"
