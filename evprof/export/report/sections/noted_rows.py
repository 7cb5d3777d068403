"""Lists of rows that suites noted in a session; they come out of a file, so that anything may stand there."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from evprof.export.report.data import ReportData

Row = dict[str, Any]


def rows_of(data: ReportData, fact: str) -> Iterator[Row]:
    """The rows of all sessions' facts of that name; what is no row is passed over."""
    for noted in data.facts(fact):
        yield from (row for row in (noted if isinstance(noted, list) else ()) if isinstance(row, dict))


def number_in(row: Row, name: str) -> float | None:
    """A finite number of a row; None for anything else."""
    value: Any = row.get(name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None
