"""Section: what answers of several lengths take, with the target alone and with drafts hidden in its prefill."""

from __future__ import annotations

from evprof.core.records import TARGET
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.modes import mode_of
from evprof.export.report.data import ReportData
from evprof.export.report.figures import ms_cell, ratio_cell, rows_cell
from evprof.export.report.parts import Cell, Paragraph, Section, Table, not_available
from evprof.export.report.sections.evidence import badge_of
from evprof.metrics.arithmetic.statistics import summarize
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.estimates.paired import compare, values_of
from evprof.metrics.figures.stages import END_TO_END, total_ms

TITLE = "Totals by length of the answer"

_TEXT = (
    "Both sides give the same tokens to the same samples, and go on past the end of sequence. A ratio above 1 is a "
    "gain; it is coloured only where its 95 % interval leaves 1 out."
)


Asked = tuple[int, object, str, str]
"""Tokens of the answer, video frames, model and dtype: what both sides have in common."""


def section(data: ReportData) -> Section:
    """A row for every length that both the target alone and some hidden drafting gave."""
    alone = {asked: column for column in data.columns if (asked := _asked(column, is_drafted=False)) is not None}
    drafted = [(asked, column) for column in data.columns if (asked := _asked(column, is_drafted=True)) is not None]
    found = [(asked, alone[asked], column) for asked, column in drafted if asked in alone]
    if len({asked[0] for asked, *_ in found}) < 2:
        return Section(TITLE, missing="Answers of several lengths, both ways; run the suite parallel-prefill.")
    rows = tuple(_row(asked[0], *columns) for asked, *columns in sorted(found, key=lambda entry: entry[0][0]))
    heads = ("tokens", "drafted by", "target alone", "drafts in its prefill", "alone / drafted", "n", "runs")
    caption = "Totals end to end, means over samples ± standard deviation, ratio of means with its 95 % interval"
    return Section(TITLE, (Table(heads, rows, caption, text_columns=2), Paragraph(_TEXT)))


def _asked(column: Configuration, *, is_drafted: bool) -> Asked | None:
    """What a configuration that goes on to its limit was asked; None of others."""
    run = column.runs[0]
    asked, model = run.info.settings, run.info.models.get(run.info.role)
    is_kind = mode_of(run.info.mode).is_parallel if is_drafted else not mode_of(run.info.mode).is_paired
    # Variants of how drafts are hidden are compared elsewhere: here stands what is so by default.
    drafting = asked.speculation
    is_plain = (drafting.begins, drafting.verify, drafting.afterwards) == ("load", "after", "plain")
    is_asked = is_kind and run.info.role == TARGET and asked.ignore_eos and (is_plain or not is_drafted)
    if not is_asked or model is None:
        return None
    return asked.max_new_tokens, asked.frames, model.name, model.dtype


def _row(length: int, alone: Configuration, drafted: Configuration) -> tuple[Cell, ...]:
    drafting = drafted.runs[0].info.settings.speculation
    name = (drafting.adapter or drafting.drafter).rstrip("/").rpartition("/")[2]
    cells = [_total(column) for column in (alone, drafted)]
    found = compare(drafted, alone, _end_to_end)
    ratio = not_available()
    if found is not None:
        interval = found.ratio_interval
        ratio = ratio_cell(found.ratio, interval, lower_is_better=False if interval else None)
    count = rows_cell(found.count if found else None)
    runs = Cell(f"{len(alone.runs):,} and {len(drafted.runs):,}")
    return Cell(str(length)), Cell(name), *cells, ratio, count, runs


def _total(column: Configuration) -> Cell:
    return ms_cell(summarize(values_of(column, _end_to_end)), badge_of(column.runs))


def _end_to_end(run: RunLog) -> float | None:
    return total_ms(run, END_TO_END)
