"""What a report holds, in reading order: one function of the data per section."""

from __future__ import annotations

from collections.abc import Callable

from evprof.export.report.data import ReportData
from evprof.export.report.parts import Section
from evprof.export.report.sections import (
    acceptance,
    alignment,
    answer_lengths,
    both_models,
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
    memory,
    models,
    overview,
    pipeline,
    published,
    sample_list,
    scaling,
    shapes,
    stage_breakdown,
    switches,
    texts,
    theory,
    what_if,
)

SectionOf = Callable[[ReportData], Section]

WITHOUT_RUNS: tuple[SectionOf, ...] = (published.section, failures.section, environment.section)
"""Of sessions into which nothing but statistics was imported."""

SECTIONS: tuple[SectionOf, ...] = (
    overview.section,
    both_models.section,
    stage_breakdown.section,
    pipeline.section,
    loading.section,
    contributions.section,
    generation.section,
    models.section,
    switches.section,
    shapes.section,
    scaling.section,
    theory.section,
    capacity.section,
    memory.section,
    acceptance.section,
    clinic.section,
    alignment.section,
    break_even.section,
    hidden_drafts.section,
    answer_lengths.section,
    what_if.section,
    claims.section,
    distributions.section,
    drift.section,
    texts.section,
    sample_list.section,
    published.section,
    failures.section,
    environment.section,
)

BESIDE_DOCUMENTS: tuple[SectionOf, ...] = (
    drift.section,
    published.section,
    failures.section,
    environment.section,
)
"""What stands behind the five documents in a report of their order."""
