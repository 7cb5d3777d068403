"""Writes a comparison, or the runs in it, into a file; for a thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evprof.core.run_log import RunLog
from evprof.metrics.comparison.document import Configuration

FORMATS = {
    "csv": ("CSV table…", "CSV (*.csv)"),
    "json": ("JSON…", "JSON (*.json)"),
    "chrome": ("Chrome trace of these runs…", "Chrome traces (*.json)"),
}
"""What can be written: the menu's words and the file dialog's pattern."""


def write_comparison_as(
    key: str, path: Path, listed: Sequence[Configuration], document: Mapping[str, Any] | None
) -> str:
    """Writes `document` (of `compare_document`), or for "chrome" all runs of the columns; what came of it, in words.

    An ending that is missing is added. Raises UserError when the place cannot be written.
    """
    wanted = ".csv" if key == "csv" else ".json"
    place = path if path.suffix.lower() == wanted else path.with_name(path.name + wanted)
    if document is None:
        return _write_trace(place, listed)
    from evprof.export.comparison_tables import write_comparison

    write_comparison(document, place)
    return f"Written: {place}"


def _write_trace(place: Path, listed: Sequence[Configuration]) -> str:
    from evprof.export.files import write_export
    from evprof.export.report.data import Source

    by_session: dict[str, list[RunLog]] = {}
    for column in listed:
        by_session.setdefault(column.session, []).extend(column.runs)
    sources = [Source(Path(session), sorted(runs, key=lambda run: run.run_id)) for session, runs in by_session.items()]
    told: list[str] = []
    write_export(sources, "chrome", place, many=len(sources) > 1, tell=told.append)
    return " ".join([f"Written: {place}", *told])
