"""Section: whether the machine kept its pace while the figures were measured."""

from __future__ import annotations

from evprof.core.run_info import REFERENCE
from evprof.export.report.data import ReportData
from evprof.export.report.figures import ms_cell, number_cell, rows_cell, share_text
from evprof.export.report.parts import POINTS, Badge, Block, Cell, Paragraph, PlotSeries, ReportPlot, Section, Table
from evprof.export.report.sections.evidence import listed
from evprof.metrics.estimates.drift import LEAST_RUNS, Drift, drift_of

TITLE = "Drift"

LARGE = 0.05
"""A change of this part of the mean over the whole time is told with a warning."""


def section(data: ReportData) -> Section:
    """What every configuration's total changed by over the time it was measured in; a reference row's whole course."""
    found = {
        name: drift
        for name, column in zip(data.names, data.columns, strict=True)
        if (drift := drift_of(column, data.basis))
    }
    if not found:
        return Section(
            TITLE,
            missing=f"{LEAST_RUNS} runs of a configuration at different times are needed; suites repeat theirs.",
        )
    rows = tuple(_row(name, drift) for name, drift in found.items())
    heads = ("configuration", "runs", "over, min", "mean total", "change over that time", "95 % interval")
    blocks: list[Block] = [
        Table(heads, rows, caption=f"Trend of totals, {data.basis}, each sample with a level of its own"),
        _verdict(found),
    ]
    reference = next((drift for name, drift in found.items() if name.split(" · ")[0] == REFERENCE), None)
    if reference is not None:
        blocks += _course(reference)
    return Section(TITLE, tuple(blocks))


def _row(name: str, drift: Drift) -> tuple[Cell, ...]:
    interval = drift.change_interval
    return (
        Cell(name),
        rows_cell(len(drift.totals_ms)),
        number_cell(drift.line.high_x),
        ms_cell(drift.line.mean_y),
        Cell(_signed(drift.change), Badge.DERIVED, tone="warn" if _is_large(drift) else ""),
        Cell(
            f"[{_signed(interval[0])}, {_signed(interval[1])}]" if interval else "n/a",
            Badge.DERIVED if interval else None,
        ),
    )


def _is_large(drift: Drift) -> bool:
    return drift.is_seen and abs(drift.change) > LARGE


def _signed(share: float) -> str:
    return f"{'+' if share > 0 else '−' if share < 0 else '±'}{share_text(abs(share))}"


def _verdict(found: dict[str, Drift]) -> Paragraph:
    large = [name for name, drift in found.items() if _is_large(drift)]
    if large:
        return Paragraph(
            f"The pace changed while this was measured, by more than {share_text(LARGE)} for {listed(large)}: "
            "compare what was measured in turns, or measure again on a quieter machine.",
            tone="warn",
        )
    if any(drift.is_seen for drift in found.values()):
        return Paragraph(f"There are trends beyond scatter, none of more than {share_text(LARGE)} of its mean.")
    return Paragraph("No configuration shows a trend beyond its scatter.")


def _course(reference: Drift) -> list[Block]:
    points = sorted(zip(reference.minutes, reference.totals_ms, strict=True))
    minutes = tuple(minute for minute, _ in points)
    ends = (minutes[0], minutes[-1])
    return [
        ReportPlot(
            POINTS,
            "The reference row before, between and after the blocks",
            (
                PlotSeries("measured", minutes, tuple(total for _, total in points), badge=Badge.MEASURED),
                PlotSeries(
                    "trend", ends, tuple(reference.line.at(end) for end in ends), is_line=True, badge=Badge.DERIVED
                ),
            ),
            x_title="minutes",
            y_title="total",
            unit="ms",
        )
    ]
