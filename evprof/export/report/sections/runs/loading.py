"""The section on loading: what every configuration read, from where, how fast, and which part of it took the time."""

from __future__ import annotations

from collections.abc import Callable

from evprof.core.records import DRAFT, TARGET
from evprof.core.run_log import RunLog
from evprof.export.report import readings
from evprof.export.report.data import ReportData
from evprof.export.report.figures import bytes_cell, count_cell, ms_cell, nothing_measured, rate_cell, share_cell
from evprof.export.report.parts import Block, Cell, Paragraph, Section, Table
from evprof.export.report.readings import ReportReading
from evprof.metrics.arithmetic.statistics import Summary
from evprof.metrics.figures.loading import Loading, loading_of
from evprof.metrics.figures.stages import END_TO_END, stage_ms

TITLE = "Loading"

Read = Callable[[Loading], float | None]


def section(data: ReportData) -> Section:
    """Bytes, rates and decoders; then the parts of stage load."""
    rows = [(place, role) for place in range(len(data.columns)) for role in (DRAFT, TARGET) if _has(data, place, role)]
    if not rows:
        return Section(TITLE, missing="Runs that tell what they read (imported and older ones do not).")
    blocks: list[Block] = [_reads(data, rows)]
    if any(_disk(data, place, role) for place, role in rows):
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


def _disk(data: ReportData, place: int, role: str) -> float:
    found = _summary(data, place, role, "bytes_from_disk", lambda loading: loading.facts.bytes_from_disk)
    return found.mean if found else 0.0


def _load(data: ReportData, place: int, role: str) -> Summary | None:
    return data.summary(place, ReportReading(f"loading ms {role}", lambda run: stage_ms(run, "load", role)))


def _part(data: ReportData, place: int, role: str, name: str) -> Summary | None:
    return _summary(data, place, role, f"part {name}", lambda loading: loading.part_ms.get(name))


def _name(data: ReportData, place: int, role: str) -> Cell:
    run = data.columns[place].runs[0]
    return Cell(data.names[place] if role == run.info.role else f"{data.names[place]} · {role}")


def _reads(data: ReportData, rows: list[tuple[int, str]]) -> Table:
    listed = []
    for place, role in rows:
        of = _of(data, place, role)
        load = _load(data, place, role)
        listed.append(
            (
                _name(data, place, role),
                Cell(_decoders(data, place, role)),
                _amount(of),
                bytes_cell(of("bytes_read", lambda loading: loading.facts.bytes_read)),
                bytes_cell(of("bytes_from_disk", lambda loading: loading.facts.bytes_from_disk)),
                _rate(of),
                ms_cell(load, has_unit=False),
                share_cell(_share(data, place, load)),
            )
        )
    heads = ("configuration", "with", "what", "read", "from disk", "rate", "load, ms", "of the total")
    return Table(heads, tuple(listed), "What stage load read, means over samples and repeats", text_columns=2)


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


def _parts(data: ReportData, rows: list[tuple[int, str]]) -> Table:
    names: dict[str, None] = {}
    for place, role in rows:
        for run in data.columns[place].runs:
            found = loading_of(run, role)
            names.update(dict.fromkeys(found.part_ms if found else ()))
    listed = []
    for place, role in rows:
        cells = []
        for name in names:
            spent = _part(data, place, role, name)
            cells.append(Cell("") if spent is None else ms_cell(spent, has_unit=False))
        listed.append((_name(data, place, role), *cells))
    return Table(("configuration", *names), tuple(listed), "Parts of stage load, ms")
