"""Section: parallel prefill, that is drafts made while the target prefills: its window, what it cost, the net gain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from evprof.core.run_log import RunLog
from evprof.core.speculation import PARALLEL_PREFILL
from evprof.export.report.data import ReportData
from evprof.export.report.figures import count_cell, ms_cell, number_text, share_text
from evprof.export.report.parts import Badge, Cell, Paragraph, Section, Table
from evprof.export.report.sections.evidence import names_of
from evprof.metrics.configurations import SampleKey, by_sample, sample_key
from evprof.metrics.parallel_prefill import Window, window_of
from evprof.metrics.speculation_text import speculation_sentence
from evprof.metrics.statistics import mean_interval, summarize

TITLE = "Drafts inside the prefill"

LESSON = (
    "Gain = saved steps - verification - contention. Contention is how much longer the target's own stages take while "
    "the draft computes beside them. Of one block at most a/(1-a) tokens are accepted, however long the window is."
)


def section(data: ReportData) -> Section:
    """A row per configuration, the sentence of its last run, and what was gained over all."""
    names, known = names_of(data), by_sample(data.runs)
    rows, said = [], []
    for column in data.columns:
        info = column.runs[0].info
        if info.mode != PARALLEL_PREFILL or info.imported is not None:
            continue
        found = _windows(column.runs, known)
        # Contention and gains are medians over repeats already: of each sample there is one.
        each = _windows([repeats[-1] for repeats in column.samples().values()], known)
        rows.append(_row(names[id(column)], found, each))
        said.append(_sentence(names[id(column)], found, each))
        last = column.runs[-1]
        said.append(speculation_sentence(last, known.get(sample_key(last), ())))
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
        "net gain",
    )
    table = Table(
        heads, tuple(rows), caption="Means over runs; contention and gains over samples, against the target alone"
    )
    return Section(TITLE, (Paragraph(LESSON), table, *(Paragraph(text, badge=Badge.DERIVED) for text in said)))


def _windows(runs: Sequence[RunLog], known: Mapping[SampleKey, Sequence[RunLog]]) -> list[Window]:
    found = (window_of(run, known.get(sample_key(run), ())) for run in runs)
    return [window for window in found if window is not None]


def _row(name: str, found: Sequence[Window], each: Sequence[Window]) -> tuple[Cell, ...]:
    def cell(read: Callable[[Window], float | None], badge: Badge = Badge.MEASURED) -> Cell:
        windows = found if badge is Badge.MEASURED else each
        values = [value for window in windows if (value := read(window)) is not None]
        return ms_cell(summarize(values), badge)

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
        cell(lambda window: window.net_gain_ms, Badge.DERIVED),
    )


def _sentence(name: str, found: Sequence[Window], each: Sequence[Window]) -> str:
    drafted, accepted = (sum(getattr(window, part) for window in found) for part in ("drafted", "accepted"))
    share = f"{accepted} of {drafted} hidden tokens accepted ({share_text(accepted / drafted)})" if drafted else ""
    gains = [window.net_gain_ms for window in each if window.net_gain_ms is not None]
    head = f"{name}: {share or 'nothing was drafted inside the prefill'}"
    if not gains:
        return f"{head}; the target was not run alone on these samples."
    net, interval = sum(gains) / len(gains), mean_interval(gains)
    ends = "" if interval is None else f" [{number_text(interval[0])}, {number_text(interval[1])}]"
    return f"{head}; parallel prefill {'saves' if net > 0 else 'costs'} {number_text(abs(net))} ms an answer{ends}."
