"""Section: how alike the two models' features are where they look at the same sample; only what a suite measured."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from evprof.export.report.data import ReportData
from evprof.export.report.figures import count_cell, number_cell
from evprof.export.report.parts import POINTS, Badge, Block, Cell, Paragraph, PlotSeries, ReportPlot, Section, Table
from evprof.export.report.sections.noted_rows import Row, number_in, rows_of

TITLE = "Alignment of visual features"

_TEXT = (
    "Cosine: of the two models' features at one place of the picture, 1 where they point the same way; it needs equal "
    "widths. CKA (arXiv 1905.00414): of all places together, whatever the widths, 1 where one is a rotation and "
    "scaling of the other. Beside each stands what it is where nothing belongs together: at other places, and with one "
    "model's places in random order. Neither says how many drafts would be accepted."
)


_FLOORS = {"mean_cosine_elsewhere": "cosine elsewhere", "cka": "CKA", "cka_shuffled": "CKA, shuffled"}
"""Figures of a sample by what they are called; those without meaning beside those with."""


def section(data: ReportData) -> Section:
    """Cosine and CKA by sample and space, and a plot of the cosine by position."""
    rows = [row for row in rows_of(data, "feature_alignment") if isinstance(row.get("sample"), str)]
    if not rows:
        return Section(TITLE, missing="Both models' features on the same samples; run the suite documents.")
    blocks: list[Block] = [_table(rows), Paragraph(_TEXT)]
    plot = _plot(rows)
    return Section(TITLE, (*blocks, plot) if plot is not None else tuple(blocks))


def _spaces(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((str(row.get("space") or ""), row["sample"]), []).append(row)
    return found


def _table(rows: Sequence[Row]) -> Table:
    listed = []
    for (space, sample), group in _spaces(rows).items():
        cosines = [value for row in group if (value := number_in(row, "cosine")) is not None]
        positions = f"n = {len(cosines):,} positions"
        listed.append(
            (
                Cell(sample),
                Cell(space),
                count_cell(number_in(group[0], "draft_tokens"), badge=Badge.MEASURED),
                count_cell(number_in(group[0], "target_tokens"), badge=Badge.MEASURED),
                number_cell(
                    fmean(cosines) if cosines else None, badge=Badge.DERIVED, note=positions if cosines else ""
                ),
                number_cell(min(cosines, default=None), badge=Badge.DERIVED),
                number_cell(max(cosines, default=None), badge=Badge.DERIVED),
                *(number_cell(_first(group, name), badge=Badge.DERIVED) for name in _FLOORS),
            )
        )
    models = ", ".join(dict.fromkeys(f"{row.get('draft')} and {row.get('target')}" for row in rows))
    heads = ("sample", "space", "draft tokens", "target tokens", "mean cosine", "least", "largest", *_FLOORS.values())
    return Table(heads, tuple(listed), f"Visual features of {models}", text_columns=2)


def _first(group: Sequence[Row], name: str) -> float | None:
    """A figure that stands on every row of a sample."""
    return next((value for row in group if (value := number_in(row, name)) is not None), None)


def _plot(rows: Sequence[Row]) -> ReportPlot | None:
    series = []
    for (space, sample), group in _spaces(rows).items():
        found = [
            (place, value)
            for row in group
            if (place := number_in(row, "position")) is not None
            if (value := number_in(row, "cosine")) is not None
        ]
        if found:
            name = f"{sample}, {space}" if space else sample
            series.append(PlotSeries(name, tuple(x for x, _ in found), tuple(y for _, y in found), badge=Badge.DERIVED))
    if not series:
        return None
    return ReportPlot(POINTS, "Cosine by position", tuple(series), x_title="position", y_title="cosine")
