"""The section on shapes: what goes into every stage and comes out of it, told once for configurations that agree.

Configurations whose stages hand on the same tensors in other sizes stand beside each other in one table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from evprof.core.records import TensorRecord
from evprof.core.rows.span import Span
from evprof.core.run_log import RunLog
from evprof.core.units import bytes_text
from evprof.export.report.data import ReportData
from evprof.export.report.figures import bytes_cell
from evprof.export.report.parts import Block, Cell, Paragraph, Section, Table, text_cells
from evprof.export.report.sections.sizes.models import has_shapes
from evprof.export.report.tensor_text import unnumbered

MOST_BESIDE = 4
"""Configurations in one table: more would not be read but scrolled through."""

SAME = "″"


class TensorLine(NamedTuple):
    """One tensor, or several numbered ones, of a stage or a part of one; `nbytes` is of all of them."""

    title: str
    direction: str
    name: str
    dtype: str
    shape: str
    nbytes: int


Lines = tuple[TensorLine, ...]
Named = dict[str, int]
"""Configurations by name, with their places; a role after the name where a run has both models."""


def section(data: ReportData) -> Section:
    """A table for each kind of pipeline, over all configurations that have it."""
    groups: dict[Lines, Named] = {}
    for place, column in enumerate(data.columns):
        run = next(filter(has_shapes, column.runs), None)
        if run is None:
            continue
        roles = dict.fromkeys(span.role for span in run.stages())
        for role in roles:
            name = data.names[place] + (f" ({role})" if len(roles) > 1 else "")
            if lines := tuple(_lines(run, role)):
                groups.setdefault(lines, {})[name] = place
    if not groups:
        return Section("Shapes", missing="Runs made by evprof: imported files do not say what went in and came out.")
    intro = (
        "Shapes and bytes of the first run of each configuration that finished; where answers differ in length, so do "
        f"token ids. {SAME} is the same as in the column before."
    )
    families: dict[object, list[tuple[Lines, Named]]] = {}
    for lines, named in groups.items():
        families.setdefault(tuple(line[:3] for line in lines), []).append((lines, named))
    tables: list[Block] = []
    for family in families.values():
        for first in range(0, len(family), MOST_BESIDE):
            beside = family[first : first + MOST_BESIDE]
            tables.append(_table(data, *beside[0]) if len(beside) == 1 else _beside(data, beside))
    return Section("Shapes", (Paragraph(intro), *tables))


def _lines(run: RunLog, role: str) -> Iterator[TensorLine]:
    for span in run.stages(role):
        yield from _of_span(span, span.name)
        for child in run.children(span.span_id):
            yield from _of_span(child, f"{span.name} · {child.name}")


def _of_span(span: Span, title: str) -> Iterator[TensorLine]:
    for direction in ("in", "out"):
        records = [record for record in span.tensors if record.direction == direction]
        for (name, dtype), group in groupby(records, lambda record: (unnumbered(record.name), record.dtype)):
            alike = list(group)
            yield TensorLine(title, direction, name, dtype, _shape(alike), sum(each.nbytes for each in alike))


def _shape(records: Sequence[TensorRecord]) -> str:
    """`[1, 641, 4096]`; of several `5 × [178…180, 240, 3]`, their smallest and largest sizes."""
    sizes = [[int(part) for part in record.shape.split(",") if part.strip()] for record in records]
    if len({len(each) for each in sizes}) > 1:
        return " and ".join(dict.fromkeys(f"[{', '.join(map(str, each))}]" for each in sizes))
    ends = [(min(column), max(column)) for column in zip(*sizes, strict=True)]
    shape = f"[{', '.join(str(low) if low == high else f'{low}…{high}' for low, high in ends)}]"
    return shape if len(records) == 1 else f"{len(records)} × {shape}"


def _starts(lines: Lines) -> list[str]:
    """Titles of lines, each at the first of its lines only."""
    return ["" if index and lines[index - 1].title == line.title else line.title for index, line in enumerate(lines)]


def _table(data: ReportData, lines: Lines, named: Named) -> Table:
    own = data.badge(next(iter(named.values())))
    rows = tuple(
        (
            *text_cells((start, line.direction, line.name, line.dtype)),
            Cell(line.shape, own),
            bytes_cell(line.nbytes, own),
        )
        for start, line in zip(_starts(lines), lines, strict=True)
    )
    return Table(("stage", "", "name", "dtype", "shape", "bytes"), rows, ", ".join(named), text_columns=5)


def _beside(data: ReportData, family: Sequence[tuple[Lines, Named]]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for start, *lines in zip(_starts(family[0][0]), *(lines for lines, _ in family), strict=True):
        dtypes = " / ".join(dict.fromkeys(line.dtype for line in lines))
        cells: list[Cell] = []
        for index, (line, (_, named)) in enumerate(zip(lines, family, strict=True)):
            if index and line[4:] == lines[index - 1][4:]:
                cells.append(Cell(SAME, tone="dim"))
            else:
                cells.append(Cell(f"{line.shape}, {bytes_text(line.nbytes)}", data.badge(next(iter(named.values())))))
        rows.append((*text_cells((start, lines[0].direction, lines[0].name, dtypes)), *cells))
    columns = [", ".join(named) for _, named in family]
    heads = ("stage", "", "name", "dtype", *columns)
    return Table(heads, tuple(rows), f"{columns[0]} to {columns[-1]}", text_columns=len(heads))
