"""What a report holds, in reading order: one function of the data per section."""

from __future__ import annotations

from collections.abc import Callable

from evprof.export.report.data import ReportData
from evprof.export.report.parts import Section
from evprof.export.report.sections import (
    acceptance,
    break_even,
    capacity,
    claims,
    clinic,
    contributions,
    distributions,
    drift,
    environment,
    failures,
    generation,
    hidden_drafts,
    loading,
    overview,
    published,
    scaling,
    shapes,
    stage_breakdown,
    texts,
    theory,
    what_if,
)

SectionOf = Callable[[ReportData], Section]

WITHOUT_RUNS: tuple[SectionOf, ...] = (published.section, failures.section, environment.section)
"""Of sessions into which nothing but statistics was imported."""

SECTIONS: tuple[SectionOf, ...] = (
    overview.section,
    stage_breakdown.section,
    loading.section,
    contributions.section,
    generation.section,
    shapes.section,
    scaling.section,
    theory.section,
    capacity.section,
    acceptance.section,
    clinic.section,
    break_even.section,
    hidden_drafts.section,
    what_if.section,
    claims.section,
    distributions.section,
    drift.section,
    texts.section,
    published.section,
    failures.section,
    environment.section,
)
