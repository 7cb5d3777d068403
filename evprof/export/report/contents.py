"""What a report holds, in reading order: one function of the data per section."""

from __future__ import annotations

from collections.abc import Callable

from evprof.export.report import distributions, environment, failures, overview, shapes, stage_breakdown, texts
from evprof.export.report.data import ReportData
from evprof.export.report.parts import Section

SectionOf = Callable[[ReportData], Section]

SECTIONS: tuple[SectionOf, ...] = (
    overview.section,
    stage_breakdown.section,
    shapes.section,
    distributions.section,
    texts.section,
    failures.section,
    environment.section,
)
