"""The section on loading: what every configuration read, from where, how fast, and which part of it took the time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from evprof.core.records import DRAFT, TARGET
from evprof.core.run_log import RunLog
from evprof.export.report import readings
from evprof.export.report.data import ReportData
from evprof.export.report.figures import bytes_cell, count_cell, ms_cell, nothing_measured, rate_cell, share_cell
from evprof.export.report.parts import Block, Cell, ColumnsOf, Paragraph, Section, Table, table_of
from evprof.export.report.readings import ReportReading
from evprof.metrics.arithmetic.statistics import Summary
from evprof.metrics.figures.loading import Loading, loading_of
from evprof.metrics.figures.stages import END_TO_END, stage_ms

TITLE = "Loading"

Read = Callable[[Loading], float | None]

Row = tuple[int, str]
"""The place of a configuration, and one of its models."""


def section(data: ReportData) -> Section:
    """Bytes, rates and decoders; then the parts of stage load."""
    rows = [(place, role) for place in range(len(data.columns)) for role in (DRAFT, TARGET) if _has(data, place, role)]
    if not rows:
        return Section(TITLE, missing="Runs that tell what they read (imported and older ones do not).")
    blocks: list[Block] = [_reads(data, rows)]
    if any(found.mean for row in rows if (found := _disk(data, *row))):
        blocks.append(
            Paragraph(
                "Bytes from a disk are those that the page cache did not have; the rest of what was read came from "
                "memory. Loading is as fast as this only while that holds: --prefetch warm or cold makes it the same "
                "for every run."
            )
        )
    return Section(TITLE, (*blocks, _parts(data, rows)))


def _has(data: ReportData, place: int, role: str) -> bool:
    return any(role in run.info.loading for run in data.columns[place].runs)


def _summary(data: ReportData, place: int, role: str, figure: str, read: Read) -> Summary | None:
    def of_run(run: RunLog) -> float | None:
        found = loading_of(run, role)
        return None if found is None else read(found)

    return data.summary(place, ReportReading(f"loading {figure} {role}", of_run))


def _disk(data: ReportData, place: int, role: str) -> Summary | None:
    return _summary(data, place, role, "bytes_from_disk", lambda loading: loading.facts.bytes_from_disk)


def _load(data: ReportData, place: int, role: str) -> Summary | None:
    return data.summary(place, ReportReading(f"loading ms {role}", lambda run: stage_ms(run, "load", role)))


def _name(data: ReportData, place: int, role: str) -> Cell:
    run = data.columns[place].runs[0]
    return Cell(data.names[place] if role == run.info.role else f"{data.names[place]} · {role}")


def _reads(data: ReportData, rows: list[Row]) -> Table:
    columns: ColumnsOf[Row] = [
        ("configuration", lambda row: _name(data, *row)),
        ("with", lambda row: _decoders(data, *row)),
        ("what", lambda row: _amount(_of(data, *row))),
        ("read", lambda row: bytes_cell(_of(data, *row)("bytes_read", lambda loading: loading.facts.bytes_read))),
        ("from disk", lambda row: bytes_cell(_disk(data, *row))),
        ("rate", lambda row: _rate(_of(data, *row))),
        ("load, ms", lambda row: ms_cell(_load(data, *row), has_unit=False)),
        ("of the total", lambda row: share_cell(_share(data, row[0], _load(data, *row)))),
    ]
    return table_of(rows, columns, "What stage load read, means over samples and repeats", text_columns=2)


Of = Callable[[str, Read], Summary | None]


def _of(data: ReportData, place: int, role: str) -> Of:
    return lambda figure, read: _summary(data, place, role, figure, read)


def _amount(of: Of) -> Cell:
    events = of("events", lambda loading: loading.facts.events)
    if events is not None:
        return count_cell(events, "events")
    frames = of("frames", lambda loading: loading.facts.frames)
    return nothing_measured() if frames is None else count_cell(frames, "frames" if frames.mean != 1 else "frame")


def _rate(of: Of) -> Cell:
    events = of("Mev/s", lambda loading: None if loading.events_per_s is None else loading.events_per_s / 1e6)
    if events is not None:
        return rate_cell(events, "Mev/s")
    return rate_cell(of("frames/s", lambda loading: loading.frames_per_s), "frames/s")


def _share(data: ReportData, place: int, load: Summary | None) -> float | None:
    total = data.summary(place, readings.total(END_TO_END))
    return None if load is None or total is None or not total.mean else load.mean / total.mean


def _decoders(data: ReportData, place: int, role: str) -> str:
    """What read it, in order of the runs: "pyav", "pyav, frame cache hit"."""
    said: dict[str, None] = {}
    for run in data.columns[place].runs:
        facts = run.info.loading.get(role)
        if facts is not None and facts.decoder:
            said[facts.decoder + (f", frame cache {facts.frame_cache}" if facts.frame_cache else "")] = None
    return "; ".join(said)


def _parts(data: ReportData, rows: list[Row]) -> Table:
    def cell(row: Row, name: str) -> Cell:
        spent = _summary(data, *row, f"part {name}", lambda loading: loading.part_ms.get(name))
        return Cell("") if spent is None else ms_cell(spent, has_unit=False)

    known = (loading_of(run, role) for place, role in rows for run in data.columns[place].runs)
    names = dict.fromkeys(name for found in known if found for name in found.part_ms)
    columns: ColumnsOf[Row] = [
        ("configuration", lambda row: _name(data, *row)),
        *((name, partial(cell, name=name)) for name in names),
    ]
    return table_of(rows, columns, "Parts of stage load, ms")
