"""Section: what each stage does, what goes in and comes out, and what it takes; the parts of a stage below it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from evprof.core.records import COVERS
from evprof.core.rows.span import Span
from evprof.core.run_log import RunLog
from evprof.core.units import ms_from_ns
from evprof.export.report import readings
from evprof.export.report.data import ReportData
from evprof.export.report.figures import ms_cell, share_cell
from evprof.export.report.parts import Badge, Cell, Section, Table
from evprof.export.report.tensor_text import tensors_text
from evprof.metrics.arithmetic.statistics import summarize
from evprof.metrics.configurations.gathering import without_reference
from evprof.metrics.figures.partition import shape_of
from evprof.metrics.figures.stages import is_measured

TITLE = "Operations of every stage"

MOST_TABLES = 4
"""Configurations told of: the operations of others are the same or nearly so."""

MOST_LOOKED_INTO = 200
"""Runs of a configuration whose logs are read."""

_OPERATIONS = {
    "load": "read and decode the sample's files",
    "preprocess": "prepare the pictures, tokenize the prompt",
    "vision": "encode the pictures, project them to the language model's width",
    "prefill": "read the whole prompt, text and pictures, into the cache",
    "decode": "one token after the other",
    readings.UNATTRIBUTED: "between the stages",
}


def section(data: ReportData) -> Section:
    """A table for the first configuration of every model."""
    firsts: dict[tuple[str, str], int] = {}
    for place, column in enumerate(data.columns):
        info = column.runs[0].info
        model = info.models.get(info.role)
        if column in without_reference([column]) and shape_of(column.runs[0]).blocks:
            firsts.setdefault((info.role, model.name if model else ""), place)
    if not firsts:
        return Section(TITLE, missing="Runs with at least one measured stage.")
    return Section(TITLE, tuple(_table(data, place) for place in list(firsts.values())[:MOST_TABLES]))


def _table(data: ReportData, place: int) -> Table:
    column, own = data.columns[place], data.badge(place)
    rows: list[tuple[Cell, ...]] = []
    looked_into = _looked_into(column.runs)
    parts = _part_times(looked_into)
    total = readings.total(data.basis)
    whole = data.summary(place, total)
    for part in readings.parts_of(column.runs[0], data.basis):
        found = data.summary(place, readings.part(part))
        span = _span(column.runs[0], part)
        share = found.mean / whole.mean if found and whole and whole.mean else None
        names = [_OPERATIONS[name] for name in part.split(COVERS)]
        rows.append(
            (
                Cell(readings.part_title(part)),
                Cell("; ".join(names)),
                *_tensors(span),
                ms_cell(found, own),
                share_cell(share),
            )
        )
        rows += [
            _child_row(parts.get((child.name, child.role), []), child, own, whole.mean if whole else None)
            for child in _children(column.runs[0], span)
        ]
    heads = ("stage", "operation", "input", "output", "time", "share")
    caption = f"{data.names[place]}: inputs and outputs of its first run, mean times of {len(column.runs):,} runs"
    if len(looked_into) < len(column.runs):
        caption += f"; times of parts of stages are means of {len(looked_into):,} of these runs"
    return Table(heads, tuple(rows), caption, text_columns=4)


def _span(run: RunLog, part: str) -> Span | None:
    wanted = tuple(part.split(COVERS))
    return next((span for span in run.stages(run.info.role) if run.accounts_for(span) == wanted), None)


def _children(run: RunLog, span: Span | None) -> list[Span]:
    """The parts of a stage, of several of one name the first; decode steps are the stage itself."""
    if span is None or span.stage_name == "decode":
        return []
    return list({child.name: child for child in reversed(run.children(span.span_id))}.values())[::-1]


def _looked_into(runs: Sequence[RunLog]) -> Sequence[RunLog]:
    """The runs whose parts of stages are told, which stand in no summary: all of a few, of many some from first to
    last."""
    return runs[:: -(-len(runs) // MOST_LOOKED_INTO)]


def _part_times(runs: Iterable[RunLog]) -> dict[tuple[str, str], list[float]]:
    """The times in ms of every part of a stage by its name and role, run by run: each log is read once."""
    found: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        spent: dict[tuple[str, str], float] = {}
        for stage in {span.span_id for span in run.stages(run.info.role)}:
            for child in run.children(stage):
                if is_measured(child):
                    key = child.name, child.role
                    spent[key] = spent.get(key, 0.0) + ms_from_ns((child.end_ns or 0) - child.start_ns)
        for key, value in spent.items():
            found.setdefault(key, []).append(value)
    return found


def _child_row(spent: Sequence[float], child: Span, own: Badge, whole: float | None) -> tuple[Cell, ...]:
    share = fmean(spent) / whole if spent and whole else None
    return (Cell(""), Cell(child.name), *_tensors(child), ms_cell(summarize(spent), own), share_cell(share))


def _tensors(span: Span | None) -> tuple[Cell, Cell]:
    records = [] if span is None else span.tensors
    return Cell(tensors_text(records, "in", has_dtype=True)), Cell(tensors_text(records, "out", has_dtype=True))
