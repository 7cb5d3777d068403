"""What a report holds, in reading order: one function of the data per section."""

from __future__ import annotations

from collections.abc import Callable

from evprof.export.report.data import ReportData
from evprof.export.report.parts import Section
from evprof.export.report.sections.imported import claims, published
from evprof.export.report.sections.runs import (
    accuracy,
    answer_lengths,
    contributions,
    distributions,
    energy,
    environment,
    generation,
    loading,
    overview,
    pipeline,
    sample_list,
    stage_breakdown,
    switches,
    texts,
)
from evprof.export.report.sections.sizes import alignment, capacity, memory, models, scaling, shapes, theory
from evprof.export.report.sections.speculation import (
    acceptance,
    both_models,
    break_even,
    clinic,
    failures,
    hidden_drafts,
    what_if,
)

SectionOf = Callable[[ReportData], Section]

WITHOUT_RUNS: tuple[SectionOf, ...] = (published.section, failures.section, environment.section)
"""Of sessions into which nothing but statistics was imported."""

SECTIONS: tuple[SectionOf, ...] = (
    overview.section,
    accuracy.section,
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
    energy.section,
    acceptance.section,
    clinic.section,
    alignment.section,
    break_even.section,
    hidden_drafts.section,
    answer_lengths.section,
    what_if.section,
    claims.section,
    distributions.section,
    texts.section,
    sample_list.section,
    published.section,
    failures.section,
    environment.section,
)

BESIDE_DOCUMENTS: tuple[SectionOf, ...] = (
    accuracy.section,
    published.section,
    failures.section,
    environment.section,
)
"""What stands after the five documents in a report of their order."""
