"""The section on shapes: what goes into every stage and comes out of it, told once for configurations that agree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from evprof.core.records import TensorRecord
from evprof.core.run_log import RunLog, Span
from evprof.export.report.data import ReportData
from evprof.export.report.figures import bytes_cell
from evprof.export.report.parts import Cell, Paragraph, Section, Table, text_cells

Line = tuple[str, str, str, str, int]
"""Stage or part of one, direction, name, shape with dtype, bytes of all that are told as one."""

ALIKE = 0.4
"""The share of lines that two sets of shapes have in common for one to be told by its differences."""

_NUMBERED = re.compile(r"^(.*?)\s*(\d+)$")


def section(data: ReportData) -> Section:
    """One table for every set of shapes that a model had, over the configurations that agree in it."""
    groups: dict[tuple[Line, ...], dict[str, int]] = {}
    for place, column in enumerate(data.columns):
        run = next((run for run in column.runs if any(span.tensors for span in run.stages())), None)
        if run is None:
            continue
        roles = dict.fromkeys(span.role for span in run.stages())
        for role in roles:
            name = data.names[place] + (f" ({role})" if len(roles) > 1 else "")
            if lines := tuple(_lines(run, role)):
                groups.setdefault(lines, {})[name] = place
    if not groups:
        return Section("Shapes", missing="Runs made by evprof: imported files do not say what went in and came out.")
    intro = "Of the first run of each configuration that finished; where answers differ in length, so do token ids."
    return Section("Shapes", (Paragraph(intro), *_tables(data, groups)))


def _tables(data: ReportData, groups: dict[tuple[Line, ...], dict[str, int]]) -> Iterator[Table]:
    """A table for each group; of one much like an earlier one only the lines in which it differs."""
    told: list[tuple[frozenset[Line], str]] = []
    for lines, named in groups.items():
        names = ", ".join(named)
        own = frozenset(lines)
        alike = [entry for entry in told if set(map(_key, entry[0])) == set(map(_key, own))]
        base, first = max(alike, key=lambda entry: len(entry[0] & own), default=(frozenset(), ""))
        if len(base & own) >= ALIKE * len(own):
            rest = tuple(line for line in lines if line not in base)
            yield _table(data, rest, named, f"{names}: what differs from {first}")
        else:
            told.append((own, next(iter(named))))
            yield _table(data, lines, named, names)


def _key(line: Line) -> tuple[str, str, str]:
    """Which tensor a line tells of, however many it stands for."""
    return (line[0], line[1], re.sub(r"\s*(\d+|\(\d+ of\))$", "", line[2]))


def _lines(run: RunLog, role: str) -> Iterator[Line]:
    for span in run.stages(role):
        yield from _of_span(span, span.name)
        for child in run.children(span.span_id):
            yield from _of_span(child, f"{span.name} · {child.name}")


def _of_span(span: Span, title: str) -> Iterator[Line]:
    for direction in ("in", "out"):
        records = [record for record in span.tensors if record.direction == direction]
        for name, alike in _collapsed(records):
            first = alike[0]
            yield title, direction, name, f"{_shape(first)} {first.dtype}", sum(each.nbytes for each in alike)


def _collapsed(records: Sequence[TensorRecord]) -> Iterator[tuple[str, list[TensorRecord]]]:
    """Tensors of one shape that are numbered, "frame 0", "frame 3", as one line with how many they are."""

    def alike(record: TensorRecord) -> tuple[str, str, str]:
        found = _NUMBERED.match(record.name)
        return (found[1] if found else record.name, record.shape, record.dtype)

    for (base, _, _), group in groupby(records, alike):
        listed = list(group)
        yield (listed[0].name if len(listed) == 1 else f"{base} ({len(listed)} of)"), listed


def _shape(record: TensorRecord) -> str:
    return f"[{', '.join(part.strip() for part in record.shape.split(',') if part.strip())}]"


def _table(data: ReportData, lines: tuple[Line, ...], named: dict[str, int], caption: str) -> Table:
    own = data.badge(next(iter(named.values())))
    rows: list[tuple[Cell, ...]] = []
    shown = ""
    for title, direction, name, shape, nbytes in lines:
        # A stage is named once, at its first line.
        texts = text_cells(("" if shown == title else title, direction, name))
        rows.append((*texts, Cell(shape, own), bytes_cell(nbytes, own)))
        shown = title
    return Table(("stage", "", "name", "shape", "bytes"), tuple(rows), caption, text_columns=4)
