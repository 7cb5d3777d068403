"""Whether a run's devices were slowed down while it ran, by its samples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from evprof.core.records import PowerRecord
from evprof.core.run_log import RunLog
from evprof.core.units import percent_text
from evprof.core.vocabulary.throttling import IDLE_BIT, doubtful_reasons, throttle_reasons
from evprof.metrics.figures.kept import kept

BUSY_PERCENT = 50
"""From here on a GPU has reason to run at its full clock."""

DROPPED_TO = 0.9
"""A busy GPU whose clock falls below this share of the run's highest has dropped it."""


def throttled_devices(run: RunLog) -> dict[str, dict[str, Any]] | None:
    """State of each sampled GPU during the run, as JSON; None where none told its reasons or clocks.

    `throttle_reasons` are the doubtful ones of all samples, `throttled_share` the share of samples with one of them or
    with a dropped clock.
    """
    found = {name: _state(records) for name, records in sorted(run.power.items()) if _tells(records)}
    return found or None


@kept()
def is_throttled(run: RunLog) -> bool | None:
    """Whether a GPU was slowed down while the run went on; None where that was not sampled."""
    found = throttled_devices(run)
    return None if found is None else any(state["throttled_share"] for state in found.values())


def throttle_sentence(run: RunLog) -> str | None:
    """What slowed a run down, in a sentence; None where nothing is known to have."""
    said = [
        f"{device} {_why(state)} in {percent_text(state['throttled_share'])} of its samples"
        for device, state in (throttled_devices(run) or {}).items()
        if state["throttled_share"]
    ]
    return f"Slowed down: {'; '.join(said)}." if said else None


def slowed_samples(records: Sequence[PowerRecord]) -> list[tuple[PowerRecord, list[str]]]:
    """Samples of one GPU in which it was slowed down, with the doubtful reasons it gave: none where only its clock
    dropped."""
    highest = _highest_mhz(records)
    told = [(record, _reasons(record)) for record in records]
    return [(record, reasons) for record, reasons in told if reasons or _dropped(record, highest)]


def slowed_down(runs: Iterable[RunLog]) -> list[RunLog]:
    """Those of some runs in which a GPU is known to have been slowed down."""
    return [run for run in runs if is_throttled(run)]


def _why(state: dict[str, Any]) -> str:
    if state["throttle_reasons"]:
        return f"by {' and '.join(state['throttle_reasons'])}"
    return f"with a clock down to {state['lowest_sm_mhz']:,} of {state['highest_sm_mhz']:,} MHz"


def _tells(records: Sequence[PowerRecord]) -> bool:
    return any(record.throttle_bits >= 0 or record.sm_mhz >= 0 for record in records)


def _state(records: Sequence[PowerRecord]) -> dict[str, Any]:
    busy = [record.sm_mhz for record in records if record.sm_mhz >= 0 and _is_busy(record)]
    slowed = slowed_samples(records)
    reasons = dict.fromkeys(name for _, names in slowed for name in names)
    hot = [record.temperature_c for record in records if record.temperature_c >= 0]
    return {
        "throttle_reasons": list(reasons),
        "throttled_share": len(slowed) / len(records),
        "lowest_sm_mhz": min(busy, default=None),
        "highest_sm_mhz": max(busy, default=None),
        "hottest_c": max(hot, default=None),
    }


def _highest_mhz(records: Sequence[PowerRecord]) -> int | None:
    return max((record.sm_mhz for record in records if record.sm_mhz >= 0 and _is_busy(record)), default=None)


def _reasons(record: PowerRecord) -> list[str]:
    return _doubtful(record.throttle_bits)


@cache
def _doubtful(bits: int) -> list[str]:
    return doubtful_reasons(throttle_reasons(bits if bits >= 0 else None))


def _is_busy(record: PowerRecord) -> bool:
    is_idle = record.throttle_bits >= 0 and record.throttle_bits & IDLE_BIT
    return record.busy_percent >= BUSY_PERCENT and not is_idle


def _dropped(record: PowerRecord, highest: int | None) -> bool:
    return highest is not None and _is_busy(record) and 0 <= record.sm_mhz < DROPPED_TO * highest
