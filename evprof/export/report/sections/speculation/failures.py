"""The section on failures: every row that did not finish, by what it failed of; none of them enters a figure."""

from __future__ import annotations

from collections import Counter

from evprof.core.run_log import RunLog
from evprof.export.report.data import ReportData
from evprof.export.report.figures import rows_cell, share_cell
from evprof.export.report.parts import Block, ColumnsOf, Paragraph, Section, Table, table_of

_FEW = 6


def section(data: ReportData) -> Section:
    """What failed, how often, and where."""
    if not data.failures:
        return Section("Failures", (Paragraph("Every row that began has finished."),))
    groups: dict[str, list[RunLog]] = {}
    for run in data.failures:
        groups.setdefault(run.info.error or f"The run is {run.info.status}.", []).append(run)
    count, whole = len(data.failures), len(data.failures) + len(data.runs)
    said = (
        f"{count:,} of {whole:,} rows did not finish. None of them is in any mean: figures say how many runs they are "
        "over."
    )
    columns: ColumnsOf[tuple[str, list[RunLog]]] = [
        ("what happened", lambda group: group[0]),
        ("configurations", lambda group: _listed([_configuration(data, run) for run in group[1]])),
        ("samples", lambda group: _listed([run.info.sample.name for run in group[1]])),
        ("status", lambda group: _listed([run.info.status for run in group[1]])),
        ("rows", lambda group: rows_cell(len(group[1]))),
    ]
    often = sorted(groups.items(), key=lambda group: -len(group[1]))
    blocks: list[Block] = [
        Paragraph(said, "warn"),
        table_of(often, columns, text_columns=4),
        _by_configuration(data),
    ]
    return Section("Failures", tuple(blocks))


def _by_configuration(data: ReportData) -> Table:
    finished = Counter(_configuration(data, run) for run in data.runs)
    failed = Counter(_configuration(data, run) for run in data.failures)
    columns: ColumnsOf[str] = [
        ("configuration", lambda name: name),
        ("finished", lambda name: rows_cell(finished[name])),
        ("did not", lambda name: rows_cell(failed[name], tone="warn" if failed[name] else "")),
        ("share", lambda name: share_cell(failed[name] / (finished[name] + failed[name]))),
    ]
    return table_of(dict.fromkeys((*finished, *failed)), columns, "By configuration")


def _configuration(data: ReportData, run: RunLog) -> str:
    """The name of the row's configuration; of one that never gave a figure, what the row itself says."""
    info = run.info
    for name, column in zip(data.names, data.columns, strict=True):
        first = column.runs[0].info
        if info.cell and (first.cell, first.role) == (info.cell, info.role):
            return name
    return " · ".join(part for part in (info.cell or info.mode, info.role) if part)


def _listed(names: list[str]) -> str:
    """Different names in order, the first few of many."""
    found = list(dict.fromkeys(name for name in names if name))
    return ", ".join(found[:_FEW]) + (f" and {len(found) - _FEW} more" if len(found) > _FEW else "")
