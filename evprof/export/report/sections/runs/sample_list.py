"""Section: the first samples one by one: what was seen, asked and said, and what it took."""

from __future__ import annotations

from evprof.core.run_log import RunLog
from evprof.export.report.data import ReportData
from evprof.export.report.figures import count_cell, ms_cell
from evprof.export.report.parts import Cell, Section, Table
from evprof.export.report.sections.runs.texts import said
from evprof.metrics.configurations.gathering import Configuration, without_reference
from evprof.metrics.figures.decoding import frames_shown, input_length, output_length
from evprof.metrics.figures.stages import stage_ms, total_ms

TITLE = "Samples one by one"

MOST_SAMPLES, MOST_TABLES, MOST_CHARACTERS = 10, 4, 240


def section(data: ReportData) -> Section:
    """A table of at most ten samples for the first configuration of every model."""
    firsts: dict[str, int] = {}
    for place, column in enumerate(data.columns):
        info = column.runs[0].info
        model = info.models.get(info.role)
        if column in without_reference([column]) and any(said(run) is not None for run in column.runs):
            firsts.setdefault(model.name if model else info.role, place)
    if not firsts:
        return Section(TITLE, missing="Answers; run with --max-new-tokens above 0, or import a file that holds them.")
    return Section(TITLE, tuple(_table(data, place) for place in list(firsts.values())[:MOST_TABLES]))


def _typical(column: Configuration) -> list[RunLog]:
    return list(column.typical_runs().values())[:MOST_SAMPLES]


def _table(data: ReportData, place: int) -> Table:
    column, own = data.columns[place], data.badge(place)
    rows = []
    for run in _typical(column):
        text = said(run) or ""
        rows.append(
            (
                Cell(run.info.sample.name or f"run {run.run_id}"),
                Cell(_picture_size(run)),
                Cell(_visual_shape(run)),
                Cell(text[:MOST_CHARACTERS] + ("…" if len(text) > MOST_CHARACTERS else "")),
                count_cell(frames_shown(run), badge=own),
                count_cell(input_length(run), badge=own),
                count_cell(output_length(run), badge=own),
                *(ms_cell(stage_ms(run, name), own, has_unit=False) for name in ("vision", "prefill", "decode")),
                ms_cell(total_ms(run, data.basis), own, has_unit=False),
            )
        )
    heads = ("sample", "picture", "visual features", "answer", "pictures", "prompt", "tokens")
    return Table(
        (*heads, "vision, ms", "prefill, ms", "decode, ms", "total, ms"),
        tuple(rows),
        f"{data.names[place]}: of every sample the repeat of median total; at most {MOST_SAMPLES} samples",
        text_columns=4,
    )


def _picture_size(run: RunLog) -> str:
    """Height and width of a picture before it is prepared for the tower: "180 × 240"; "" where nothing tells."""
    for span in run.stages(run.info.role):
        for child in run.children(span.span_id):
            for record in child.tensors:
                sizes = [part.strip() for part in record.shape.split(",")]
                if record.dtype == "uint8" and len(sizes) >= 3 and sizes[-1] == "3":
                    return " × ".join(sizes[-3:-1])
    return ""


def _visual_shape(run: RunLog) -> str:
    """Shape of what vision hands to prefill; "" where nothing tells."""
    span = run.stage("vision", run.info.role)
    shapes = [record.shape for record in span.tensors if record.direction == "out"] if span is not None else []
    return f"[{shapes[0].replace(',', ', ')}]" if shapes else ""
