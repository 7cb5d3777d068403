"""What is kept of a run beside its rows: every figure that is marked as kept, read off the rows once it has ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evprof.core.run_log import RunLog
from evprof.metrics.comparison import circumstances, figures
from evprof.metrics.figures import loading, throttling
from evprof.metrics.figures.kept import KEPT
from evprof.metrics.speculation import break_even, failure_modes

OF_MODULES = (circumstances, figures, loading, throttling, break_even, failure_modes)
"""Modules that keep figures, with those they import."""

COLUMNS: Mapping[str, str] = {name: entry.kind for name, entry in sorted(KEPT.items())}
"""Name of every kept figure -> what it is kept as."""


def summary_of(run: RunLog) -> dict[str, Any]:
    """The kept figures of a run that has ended, by name."""
    return {name: entry.of(run) for name, entry in KEPT.items()}
