"""Where drafts are accepted and why they fail, and how alike the two models' visual features are."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from statistics import fmean
from typing import Any

from evprof.core.run_log import RunLog
from evprof.export.report.data import ReportData
from evprof.export.report.figures import count_cell, number_cell, share_cell, share_text
from evprof.export.report.pairs import number_in
from evprof.export.report.parts import (
    POINTS,
    Badge,
    Block,
    Cell,
    ColumnsOf,
    Paragraph,
    PlotSeries,
    ReportPlot,
    Table,
    row_of,
    table_of,
)
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.speculation.clinic import per_position, round_histogram
from evprof.metrics.speculation.failure_modes import KINDS, Rejection, first_rejections, rejection_counts
from evprof.metrics.speculation.outcome import round_count

MOST_DRAWN = 4
"""Configurations in one plot, and with examples."""

MOST_EXAMPLES = 12
"""First rejections of a configuration that are listed."""

MEANINGS = (
    "A round ends at its first rejected token. Shifted: the draft's token comes a few places later in the target's "
    "text, or the target's in the draft's. Surface: the same word but for case, spaces, punctuation or inflection. "
    "Content: another word."
)

FLOORS = {"mean_cosine_elsewhere": "cosine elsewhere", "cka": "CKA", "cka_shuffled": "CKA, shuffled"}
"""Figures of a sample by title; those where nothing belongs together beside the others."""

ALIGNMENT = (
    "Cosine: of the two models' features at one place of the picture; it needs equal widths. CKA (arXiv 1905.00414): "
    "of all places together, 1 where one is a rotation and scaling of the other. Beside each stands its value where "
    "nothing belongs together: at other places, and with one model's places in random order."
)


def failures(data: ReportData) -> list[Block]:
    """A plot of acceptance by place, and the first rejections by kind, with examples."""
    columns = [column for column in data.columns if any(map(round_count, column.runs))]
    # Blocks drafted inside a prefill are of another length.
    steady = [column for column in columns if round_histogram(*column.runs, steady_only=True)][:MOST_DRAWN]
    blocks: list[Block] = [_by_place(steady, data)] if steady else []
    failed = {id(column): _counted(column.runs) for column in columns}
    if any(map(any, failed.values())):
        rows = []
        for column in columns:
            counts = failed[id(column)]
            whole = sum(counts)
            cells = [
                Cell(f"{count} ({share_text(count / whole)})" if whole else "0", Badge.MEASURED) for count in counts
            ]
            rows.append(row_of(data.name(column), count_cell(whole), *cells))
        heads = ("configuration", "first rejections", *KINDS)
        blocks += [Paragraph(MEANINGS), Table(heads, tuple(rows), "First rejections by kind")]
        blocks += [_examples(column, data) for column in columns[:MOST_DRAWN] if any(failed[id(column)])]
    return blocks


def _by_place(columns: list[Configuration], data: ReportData) -> ReportPlot:
    series = []
    for column in columns:
        places = [entry for entry in per_position(*column.runs, steady_only=True) if entry.judged]
        x, y = tuple(float(entry.place + 1) for entry in places), tuple(entry.conditional for entry in places)
        series.append(PlotSeries(data.name(column), x, y, is_line=True, badge=Badge.MEASURED))
    return ReportPlot(
        POINTS,
        "Accepted of what was judged, by place in the round",
        tuple(series),
        x_title="drafted token",
        y_title="accepted",
        caption="A token is judged when all before it in its round were accepted",
    )


def _counted(runs: Iterable[RunLog]) -> tuple[int, ...]:
    """First rejections of all these runs, in the order of KINDS."""
    each = [counts for run in runs if (counts := rejection_counts(run)) is not None]
    return tuple(sum(counts[kind] for counts in each) for kind in KINDS)


def _examples(column: Configuration, data: ReportData) -> Table:
    # Repeats fail alike: the first run of each sample is listed.
    firsts = [repeats[0] for repeats in column.samples().values()]
    count = sum(_counted(firsts))
    each = ((run, entry) for run in firsts if rejection_counts(run) for entry in first_rejections(run))
    columns: ColumnsOf[tuple[RunLog, Rejection]] = [
        ("run", lambda row: str(row[0].run_id)),
        ("round", lambda row: str(row[1].round_index + 1)),
        ("draft", lambda row: _piece(row[1].draft_piece)),
        ("target", lambda row: _piece(row[1].target_piece)),
        ("kind", lambda row: row[1].kind),
        ("draft of its own", lambda row: share_cell(row[1].draft_chance, Badge.MEASURED)),
        ("target of the draft's", lambda row: share_cell(row[1].cross_chance, Badge.MEASURED)),
        ("target of its own", lambda row: share_cell(row[1].target_chance, Badge.MEASURED)),
    ]
    more = f"; {MOST_EXAMPLES} of {count}" if count > MOST_EXAMPLES else ""
    caption = f"{data.name(column)}: first rejections with their probabilities{more}"
    return table_of(islice(each, MOST_EXAMPLES), columns, caption, text_columns=5)


def _piece(piece: str) -> str:
    return f"“{piece}”" if piece else "(end)"


def alignment(data: ReportData) -> list[Block]:
    """Cosine and CKA of both models' features by sample and space, and a plot of the cosine by position."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in data.noted_rows("feature_alignment"):
        if isinstance(row.get("sample"), str):
            groups.setdefault((row["sample"], str(row.get("space") or "")), []).append(row)
    rows, series = [], []
    for (sample, space), group in groups.items():
        values = [value for row in group if (value := number_in(row, "cosine")) is not None]
        first = {
            name: next((known for row in group if (known := number_in(row, name)) is not None), None) for name in FLOORS
        }
        note = f"n = {len(values):,} positions" if values else ""
        rows.append(
            row_of(
                sample,
                space,
                *(count_cell(number_in(group[0], name)) for name in ("draft_tokens", "target_tokens")),
                number_cell(fmean(values) if values else None, badge=Badge.DERIVED, note=note),
                *(number_cell(end(values, default=None), badge=Badge.DERIVED) for end in (min, max)),
                *(number_cell(value, badge=Badge.DERIVED) for value in first.values()),
            )
        )
        places = [number_in(row, "position") for row in group if number_in(row, "cosine") is not None]
        points = [(place, value) for place, value in zip(places, values, strict=True) if place is not None]
        if points:
            x, y = tuple(place for place, _ in points), tuple(value for _, value in points)
            series.append(PlotSeries(f"{sample}, {space}" if space else sample, x, y, badge=Badge.DERIVED))
    if not rows:
        return []
    models = dict.fromkeys(f"{row.get('draft')} and {row.get('target')}" for group in groups.values() for row in group)
    heads = ("sample", "space", "draft tokens", "target tokens", "mean cosine", "least", "largest", *FLOORS.values())
    caption = f"Visual features of {', '.join(models)}"
    blocks: list[Block] = [Table(heads, tuple(rows), caption, text_columns=2), Paragraph(ALIGNMENT)]
    title = "Cosine by position"
    return (
        [*blocks, ReportPlot(POINTS, title, tuple(series), x_title="position", y_title="cosine")] if series else blocks
    )
