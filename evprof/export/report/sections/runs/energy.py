"""The section on energy: in all, by token and by stage, the power drawn, and runs in which a GPU was slowed down."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from evprof.core.records import COVERS, STAGES
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.figures import ENERGY, FIGURES
from evprof.export.report.data import ReportData
from evprof.export.report.figures import nothing_measured
from evprof.export.report.parts import Badge, Block, Bullets, Cell, ColumnsOf, Paragraph, Section, Table, table_of
from evprof.export.report.readings import ReportReading, figure
from evprof.metrics.comparison.circumstances import meters
from evprof.metrics.figures.energy import computing_devices, energy_document
from evprof.metrics.figures.throttling import is_throttled, slowed_down, throttle_sentence

TITLE = "Energy"

_READINGS = tuple((FIGURES[key].title, figure(key)) for key in FIGURES if FIGURES[key].head == ENERGY)
_REST = "unattributed"


def section(data: ReportData) -> Section:
    """Figures, then stages; then what was slowed down. Only configurations whose devices were sampled."""
    places = [place for place, column in enumerate(data.columns) if any(map(meters, column.runs))]
    if not places:
        return Section(TITLE, missing="Runs whose devices' power was sampled (NVIDIA GPUs, and processors with RAPL).")
    columns: ColumnsOf[int] = [
        ("configuration", lambda place: data.names[place]),
        ("devices", lambda place: _devices(data.columns[place].runs)),
        *((title, partial(data.cell, reading=reading)) for title, reading in _READINGS),
        ("slowed down", lambda place: _slowed(data.columns[place].runs)),
    ]
    blocks: list[Block] = [
        table_of(places, columns, "Energy and power, means over samples and repeats", text_columns=2),
        _stages(data, places),
        Paragraph(
            "Energy is that of whole devices while a run went on, from its zero to its end: what they draw when idle "
            "and what others do on them is in it. A stage shorter than a step of the device's counter is n/a; its "
            f"energy is in {_REST}, so that stages and {_REST} add up to the whole run's."
        ),
    ]
    return Section(TITLE, (*blocks, *_warnings(data, places)))


def _devices(runs: Sequence[RunLog]) -> str:
    return ", ".join(dict.fromkeys(name for run in runs for name in computing_devices(run)))


def _slowed(runs: Sequence[RunLog]) -> Cell:
    told = [run for run in runs if is_throttled(run) is not None]
    return Cell(f"{len(slowed_down(told)):,} of {len(told):,} runs", Badge.MEASURED) if told else nothing_measured()


def _stages(data: ReportData, places: list[int]) -> Table:
    known = [energy_document(run) for place in places for run in data.columns[place].runs]
    names = {name for found in known if found for name in found["stages"]}
    ordered = sorted(names, key=lambda name: (max(map(STAGES.index, name.split(COVERS))), len(name)))
    columns: ColumnsOf[int] = [
        ("configuration", lambda place: data.names[place]),
        *((name, lambda place, name=name: data.cell(place, _part(name))) for name in (*ordered, _REST)),
    ]
    return table_of(places, columns, "Energy by stage")


def _part(name: str) -> ReportReading:
    def read(run: RunLog) -> float | None:
        found = energy_document(run)
        if found is None:
            return None
        value: float | None = found["unattributed_j"] if name == _REST else found["stages"].get(name)
        return value

    return ReportReading(f"energy of {name}", read, "J", is_derived=name == _REST)


def _warnings(data: ReportData, places: list[int]) -> list[Block]:
    slowed = [run for place in places for run in slowed_down(data.columns[place].runs)]
    if not slowed:
        return []
    said = dict.fromkeys(sentence for run in slowed if (sentence := throttle_sentence(run)))
    which = f"{len(slowed):,} runs were" if len(slowed) > 1 else "1 run was"
    head = f"{which} slowed down; the times are not what the GPU can do:"
    return [Paragraph(head, "warn"), Bullets(tuple(said))]
