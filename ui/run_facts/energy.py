"""Energy of a stage in words."""

from __future__ import annotations

from evprof.core.rows.span import Span
from evprof.core.run_log import RunLog
from evprof.core.units import amount_text

ENERGY_TIP = "of the devices that computed, idle power included; n/a: shorter than a step of the counter"


def energy_text(run: RunLog, span: Span) -> str:
    """`41.2 J`, "n/a" where it is not known; empty for parts of stages, running ones, and runs without samples."""
    from evprof.metrics.figures.energy import computing_devices, energy_between_j

    if not span.is_stage or not span.is_settled or span.end_ns is None or not computing_devices(run):
        return ""
    return amount_text(energy_between_j(run, span.start_ns, span.end_ns), "J")
