"""The figures that are stored with a run: every one that is marked as kept, computed once the run has ended."""

from __future__ import annotations

from typing import Any

from evprof.core.run_log import RunLog
from evprof.metrics.comparison import comparability, figures
from evprof.metrics.figures.energy import throttled_devices
from evprof.metrics.figures.kept import KEPT, VERSION, VERSION_KEY
from evprof.metrics.figures.kv_cache import loading_of
from evprof.metrics.speculation import break_even

REGISTERED = (comparability, figures, loading_of, throttled_devices, break_even)
"""Imported because these modules, and what they import, register the figures that are kept."""


def summary_of(run: RunLog) -> dict[str, Any]:
    """The kept figures of a run that has ended, by name; those that are None are left out."""
    values = {name: compute(run) for name, compute in KEPT.items()}
    return {VERSION_KEY: VERSION, **{name: value for name, value in values.items() if value is not None}}
