"""Energy, power and state of the devices that computed, in words; nothing of runs whose devices were not sampled."""

from __future__ import annotations

from typing import Any

from evprof.core.rows.span import Span
from evprof.core.run_log import RunLog
from evprof.core.units import amount_text, percent_text

ENERGY_TIP = "of the devices that computed, what they draw when idle included; n/a: shorter than a step of the counter"
POWER_TIP = "ten samples a second of the devices that computed"

SLOWED_DOWN = "slowed down"
ENERGY_LINES = {
    "per token": "energy of decode / (n - 1)",
    "mean power": "energy / wall time",
    "peak power": "the most in a sample, " + POWER_TIP,
    "clock": "lowest and highest of busy samples",
    "hottest": POWER_TIP,
    SLOWED_DOWN: "samples in which the GPU gave a reason to run slower, or its clock had dropped",
}
"""Lines that follow the energy in all and by stage, and what each means."""


def energy_text(run: RunLog, span: Span) -> str:
    """`41.2 J`, "n/a" where it is not known; empty for parts of stages, running ones, and runs without samples."""
    from evprof.metrics.figures.energy import computing_devices, energy_between_j

    if not span.is_stage or not span.is_settled or span.end_ns is None or not computing_devices(run):
        return ""
    return amount_text(energy_between_j(run, span.start_ns, span.end_ns), "J")


def energy_lines(run: RunLog) -> dict[str, str]:
    """Energy in all and by stage, then ENERGY_LINES, by name; {} until the run is over, and without samples."""
    from evprof.metrics.figures.energy import computing_devices, energy_document
    from evprof.metrics.figures.throttling import throttled_devices

    found = energy_document(run)
    if found is None or not computing_devices(run):
        return {}
    parts = {**found["stages"], "unattributed": found["unattributed_j"]}
    states = {name: state for name, state in (throttled_devices(run) or {}).items() if name in computing_devices(run)}
    clocks = [state[key] for state in states.values() for key in ("lowest_sm_mhz", "highest_sm_mhz")]
    known = [clock for clock in clocks if clock is not None]
    hottest = max((state["hottest_c"] for state in states.values() if state["hottest_c"] is not None), default=None)
    lines = {
        "total": amount_text(found["energy_j"], "J"),
        **{name: amount_text(value, "J") for name, value in parts.items()},
        "per token": amount_text(found["energy_per_token_j"], "J"),
        "mean power": amount_text(found["mean_power_w"], "W"),
        "peak power": amount_text(found["peak_power_w"], "W"),
        "clock": " … ".join(dict.fromkeys(f"{clock:,}" for clock in (min(known), max(known)))) + " MHz"
        if known
        else "",
        "hottest": "" if hottest is None else f"{hottest} °C",
        SLOWED_DOWN: "; ".join(filter(None, map(_slowed, states.values()))),
    }
    return {name: text for name, text in lines.items() if text}


def _slowed(state: dict[str, Any]) -> str:
    return f"{percent_text(state['throttled_share'])} of samples" if state["throttled_share"] else ""
