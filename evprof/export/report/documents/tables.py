"""What items show: sections of the report, or single tables of them, made of the data of an item's parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evprof.export.report.data import ReportData
from evprof.export.report.documents.item import Shows
from evprof.export.report.parts import Block, Section, Table
from evprof.export.report.sections.imported import claims
from evprof.export.report.sections.runs import (
    answer_lengths,
    contributions,
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
    hidden_drafts,
    what_if,
)
from evprof.metrics.figures.partition import shape_of


def _all_of(section: Callable[[ReportData], Section]) -> Shows:
    return lambda data: section(data).blocks


def lengths(data: ReportData) -> Sequence[Block]:
    """Prompt, visual and text positions, answers, rates, caches."""
    return [overview.lengths_table(data)]


def stage_shares(data: ReportData) -> Sequence[Block]:
    """Every stage with its interval and its share of the total."""
    return [stage_breakdown.details_table(data)] if any(shape_of(run).blocks for run in data.runs) else []


def settings(data: ReportData) -> Sequence[Block]:
    """What was asked of the models, and how many samples there were."""
    return [overview.inputs_table(data), *environment.settings_blocks(data)]


def claims_of(document: str) -> Shows:
    """The verdicts on the claims of a document."""

    def shows(data: ReportData) -> Sequence[Block]:
        for block in claims.section(data).blocks:
            if isinstance(block, Table):
                rows = tuple(row for row in block.rows if row[0].text == document)
                return [Table(block.heads, rows, block.caption, block.text_columns)] if rows else []
        return []

    return shows


both = _all_of(both_models.section)
all_shapes = _all_of(shapes.section)
operations = _all_of(pipeline.section)
samples = _all_of(sample_list.section)
fewer_or_faster = _all_of(generation.section)
contribution = _all_of(contributions.section)
theory_blocks = _all_of(theory.section)
how_many_fit = _all_of(capacity.section)
frames = _all_of(scaling.section)
reading = _all_of(loading.section)
all_texts = _all_of(texts.section)
acceptances = _all_of(acceptance.section)
failures = _all_of(clinic.section)
break_evens = _all_of(break_even.section)
hidden = _all_of(hidden_drafts.section)
faster_stages = _all_of(what_if.section)
aligned = _all_of(alignment.section)
by_answer_length = _all_of(answer_lengths.section)
architecture = models.architecture
compression = models.compression
diagrams = models.diagrams
peaks = memory.peaks
layouts = memory.layouts
batches = memory.batches
one_setting = _all_of(switches.section)
same_input = switches.same_input
