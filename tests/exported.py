"""What exports write, as values in memory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from evprof.core.run_log import RunLog
from evprof.export.chrome_trace import ChromeTrace
from evprof.export.report.data import Source
from evprof.export.tables import COLUMNS, Row, table_rows


def chrome_trace(runs: Iterable[RunLog]) -> dict[str, Any]:
    trace = ChromeTrace([Source(Path(), list(runs))])
    entries = list(trace.entries())
    return trace.head | {"traceEvents": entries} | trace.tail


def tables(runs: Iterable[RunLog], session: str = "") -> dict[str, list[Row]]:
    """Table name -> rows of some runs."""
    listed = list(runs)
    return {name: [row for run in listed for row in table_rows(name, run, session)] for name in COLUMNS}
