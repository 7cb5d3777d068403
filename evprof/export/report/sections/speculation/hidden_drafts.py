"""Section: parallel prefill, that is drafts made while the target prefills: its window, what it cost, the net gain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from evprof.core.run_log import RunLog
from evprof.core.vocabulary.modes import mode_of
from evprof.export.report.data import ReportData
from evprof.export.report.figures import count_cell, ms_cell, share_text
from evprof.export.report.parts import Badge, Cell, ColumnsOf, Paragraph, Section, table_of
from evprof.export.report.sections.evidence import names_of, payoff_in, runs_against, saved_cell
from evprof.metrics.arithmetic.statistics import summarize
from evprof.metrics.configurations.gathering import Configuration, SampleKey, by_sample, sample_key
from evprof.metrics.speculation.outcome import AcceptanceCeiling, ceiling_of, distinct_answers
from evprof.metrics.speculation.parallel_prefill import ParallelPrefillFigures, window_of
from evprof.metrics.speculation.payoff import Payoff
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
    known = {
        id(column): payoff_in(data, column)
        for column in data.columns
        if mode_of(column.runs[0].info.mode).is_parallel and column.runs[0].info.imported is None
    }
    told = [column for column in data.columns if id(column) in known]
    if not told:
        return Section(TITLE, missing="No run drafted inside a prefill; run --mode parallel-prefill.")
    windows = {id(column): _windows(column.runs, by_sample(data.beside(column))) for column in told}

    def cell(
        column: Configuration, read: Callable[[ParallelPrefillFigures], float | None], badge: Badge = Badge.MEASURED
    ) -> Cell:
        values = [value for window in windows[id(column)] if (value := read(window)) is not None]
        return ms_cell(summarize(values), badge)

    def counted(column: Configuration, read: Callable[[ParallelPrefillFigures], int]) -> Cell:
        return count_cell(summarize([float(read(window)) for window in windows[id(column)]]))

    columns: ColumnsOf[Configuration] = [
        ("configuration", lambda column: names[id(column)]),
        ("window, from prefill", partial(cell, read=lambda window: window.prefill_ms)),
        ("window, from load", partial(cell, read=lambda window: window.with_load_ms)),
        ("left for drafting", partial(cell, read=lambda window: window.left_ms)),
        ("hidden drafted", partial(counted, read=lambda window: window.drafted)),
        ("hidden accepted", partial(counted, read=lambda window: window.accepted)),
        ("contention", partial(cell, read=lambda window: window.stage_contention_ms, badge=Badge.DERIVED)),
        ("verification", partial(cell, read=lambda window: window.verify_ms)),
        ("predicted gain", partial(cell, read=lambda window: window.predicted_gain_ms, badge=Badge.DERIVED)),
        ("saved an answer", lambda column: saved_cell(known[id(column)])),
        ("runs against plain", lambda column: runs_against(known[id(column)])),
    ]
    table = table_of(told, columns, "Means over runs; contention and gains against the target alone")
    said = [_sentence(names[id(column)], column.runs, known[id(column)]) for column in told]
    return Section(TITLE, (Paragraph(LESSON), table, *(Paragraph(text, badge=Badge.DERIVED) for text in said)))


def _windows(runs: Sequence[RunLog], known: Mapping[SampleKey, Sequence[RunLog]]) -> list[ParallelPrefillFigures]:
    found = (window_of(run, known.get(sample_key(run), ())) for run in runs)
    return [window for window in found if window is not None]


def _sentence(name: str, runs: Sequence[RunLog], payoff: Payoff | None) -> str:
    distinct = distinct_answers(runs)
    hidden = [entry for run in distinct for entry in run.rounds if entry.hidden]
    drafted, accepted = sum(entry.drafted for entry in hidden), sum(entry.accepted for entry in hidden)
    verdict = payoff_sentence(payoff) if payoff else "the target was not run alone on these samples."
    if not drafted:
        return f"{name}: {verdict} Nothing was drafted inside the prefill."
    share = f"{accepted:,} of {drafted:,} hidden tokens were accepted ({share_text(accepted / drafted)})"
    return f"{name}: {verdict} In {_answers(len(distinct))}, {share}{_ceiling(ceiling_of(runs, hidden_only=True))}."


def _answers(count: int) -> str:
    return "1 answer" if count == 1 else f"{count:,} different answers"


def _ceiling(found: AcceptanceCeiling | None) -> str:
    if found is None:
        return ""
    low, high = found.interval
    ends = f"[{low:.1f}, {'∞' if high is None else f'{high:.1f}'}]"
    return f"; if acceptances are independent, no window gets more than {found.value:.1f} {ends} accepted"
