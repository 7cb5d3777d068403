"""What exports write, as values in memory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from evprof.core.run_log import RunLog
from evprof.export.chrome_trace import ChromeTrace
from evprof.export.report.data import Source
from evprof.export.tables import COLUMNS, Row, run_tables


def chrome_trace(runs: Iterable[RunLog]) -> dict[str, Any]:
    trace = ChromeTrace([Source(Path(), list(runs))])
    entries = list(trace.entries())
    return trace.head | {"traceEvents": entries} | trace.tail


def tables(runs: Iterable[RunLog], session: str = "") -> dict[str, list[Row]]:
    """Table name -> rows of some runs."""
    found = [run_tables(run, session) for run in runs]
    return {name: [row for each in found for row in each[name]] for name in COLUMNS}
