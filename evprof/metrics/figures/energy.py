"""Energy and power of a run: in all, by stage, by token and by device.

Energy is that of whole devices (a GPU's board, a processor's package) from the run's zero to its end: whatever else
they do is in it, and what they draw when idle is not taken off. Figures of a run count the devices on which its models
computed; others are told beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from evprof.core.records import COVERS, STAGES, PowerRecord
from evprof.core.run_log import RunLog
from evprof.core.units import NS_PER_S, ms_from_ns, percent_text
from evprof.core.vocabulary.figures import IDLE_BIT, doubtful_reasons, throttle_reasons
from evprof.metrics.arithmetic.energy_curve import EnergyCurve, Interval, by_sharers, merged
from evprof.metrics.figures import stages
from evprof.metrics.figures.kept import kept
from evprof.metrics.figures.partition import name_of, ordered
from evprof.metrics.figures.stages import Rate
from evprof.view.lanes import power_line

COUNTER, POWER = "counter", "power"
"""Where energy comes from: the device's own counter, or its power integrated over time."""


@dataclass(frozen=True)
class DeviceEnergy:
    """One device's energy during a run, in J; None where it is not known.

    `stages` has an entry for each stage, and one such as "vision+prefill" for time in which several ran at once.
    `unattributed_j` is the rest, stages too short to be told included, so that all add up to `energy_j`.
    """

    source: str
    energy_j: float | None
    mean_power_w: float | None
    peak_power_w: float | None
    stages: Mapping[str, float | None]
    unattributed_j: float | None
    resolution_ms: float | None

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "stages": dict(self.stages)}


def computing_devices(run: RunLog) -> tuple[str, ...]:
    """The sampled devices on which the run's models computed; empty where one of them was not sampled."""
    found: list[str] = []
    for wanted in dict.fromkeys(facts.device for facts in run.info.models.values()):
        mine = [name for name in run.power if name == wanted or name.partition(":")[0] == wanted == "cpu"]
        mine = mine or [name for name in run.power if f"{wanted}:0" == name]
        if not mine:
            return ()
        found += mine
    return tuple(dict.fromkeys(found))


def device_energies(run: RunLog) -> dict[str, DeviceEnergy]:
    """Every sampled device's energy from the run's zero to its end; empty until both are known."""
    whole = _whole(run)
    if whole is None:
        return {}
    parts = _stage_parts(run, whole)
    return {name: _energy_of(_in_order(records), parts, whole) for name, records in run.power.items()}


def energy_j(run: RunLog, basis: str = stages.END_TO_END) -> float | None:
    """Energy in J of the devices that computed, for what a total on this basis counts; None where it is not known."""
    return _energy_j(run, basis)


@kept(*((basis,) for basis in stages.BASES))
def _energy_j(run: RunLog, basis: str) -> float | None:
    return _computing_sum(run, lambda curve: curve.energy_j(_windows(run, basis)))


def energy_between_j(run: RunLog, start_ns: int, end_ns: int) -> float | None:
    """Energy in J of the devices that computed between two moments; None where it is not known, as of what is shorter
    than a step of the counter."""
    return _computing_sum(run, lambda curve: curve.energy_j([(start_ns, end_ns)]))


@kept()
def _decode_energy_j(run: RunLog) -> float | None:
    windows = stages.settled_intervals(run, ("decode",))
    return _computing_sum(run, lambda curve: curve.energy_j(windows)) if windows else None


def _wall_s(run: RunLog) -> float | None:
    wall = stages.wall_ms(run)
    return None if wall is None else wall / 1000


decode_energy_per_token_j = Rate(_decode_energy_j, lambda run: max(0, len(run.tokens) - 1))
"""Energy of decode in J by n - 1, as its time per token is counted; None without a second token."""

mean_power_w = Rate(energy_j, _wall_s)
"""Energy by wall time, in W, of the devices that computed."""


@kept()
def peak_power_w(run: RunLog) -> float | None:
    """The most that the devices that computed drew in a sample, in W: each at its own moment."""
    window = _whole(run)
    found = [_peak_w(_in_order(run.power[name]), window) for name in computing_devices(run)] if window else []
    return _sum(found)


def energy_document(run: RunLog) -> dict[str, Any] | None:
    """The run's energy as JSON; None where no device was sampled."""
    devices, computing = device_energies(run), computing_devices(run)
    if not devices:
        return None
    counted = [devices[name] for name in computing]
    names = dict.fromkeys(name for entry in devices.values() for name in entry.stages)
    return {
        "energy_j": _sum([entry.energy_j for entry in counted]),
        "energy_per_token_j": decode_energy_per_token_j(run),
        "mean_power_w": mean_power_w(run),
        "peak_power_w": peak_power_w(run),
        **_summed_parts(counted, names),
        "devices": {
            name: {"computes": name in computing, **entry.to_json()} for name, entry in sorted(devices.items())
        },
    }


def _summed_parts(counted: Sequence[DeviceEnergy], names: Iterable[str]) -> dict[str, Any]:
    """Stages of all devices together. What only some of them can tell is unattributed, so that the sum holds."""
    parts = {name: _sum([entry.stages.get(name) for entry in counted]) for name in names}
    return {"stages": parts, "unattributed_j": _rest(_sum([entry.energy_j for entry in counted]), parts)}


def _rest(whole: float | None, parts: Mapping[str, float | None]) -> float | None:
    return None if whole is None else whole - sum(value for value in parts.values() if value is not None)


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if values and len(known) == len(values) else None


def _computing_sum(run: RunLog, read: Callable[[EnergyCurve], float | None]) -> float | None:
    return _sum([read(_curve(_in_order(run.power[name]))[1]) for name in computing_devices(run)])


def _energy_of(records: list[PowerRecord], parts: Mapping[str, list[Interval]], window: Interval) -> DeviceEnergy:
    source, curve = _curve(records)
    whole = curve.energy_j([window])
    by_stage = {name: curve.energy_j(times) if whole is not None else None for name, times in parts.items()}
    seconds, resolution = (window[1] - window[0]) / NS_PER_S, curve.resolution_ns(window)
    return DeviceEnergy(
        source=source,
        energy_j=whole,
        mean_power_w=whole / seconds if whole is not None else None,
        peak_power_w=_peak_w(records, window),
        stages=by_stage,
        unattributed_j=_rest(whole, by_stage),
        resolution_ms=None if resolution is None else ms_from_ns(resolution),
    )


def _curve(records: list[PowerRecord]) -> tuple[str, EnergyCurve]:
    """The counter's where the device has one, else that of its power."""
    counted = [record for record in records if record.energy_uj >= 0]
    if counted:
        times, counts = zip(*((record.t_ns, record.energy_uj) for record in counted), strict=True)
        return COUNTER, EnergyCurve.of_counter(times, counts)
    drawn = [record for record in records if record.power_mw >= 0]
    return POWER, EnergyCurve.of_power([record.t_ns for record in drawn], [record.power_mw for record in drawn])


def _peak_w(records: list[PowerRecord], window: Interval) -> float | None:
    times, watts = power_line(records)
    inside = watts[(times >= window[0]) & (times <= window[1])]
    return float(inside.max()) if len(inside) else None


def _in_order(records: Sequence[PowerRecord]) -> list[PowerRecord]:
    """By time, one for each moment."""
    return [by_time[1] for by_time in sorted({record.t_ns: record for record in records}.items())]


def _whole(run: RunLog) -> Interval | None:
    start, end = run.info.start_ns, run.info.end_ns
    return None if start is None or end is None else (start, end)


def _stage_parts(run: RunLog, whole: Interval) -> dict[str, list[Interval]]:
    """Time by stage inside the run, each moment once: that of several at once under their joined name."""
    named = [
        (name_of(span.covers), (max(span.start_ns, whole[0]), min(span.end_ns, whole[1])))
        for span in run.stages()
        if span.is_settled and span.end_ns is not None
    ]
    found: dict[str, list[Interval]] = {}
    for names, times in by_sharers(named).items():
        stage = name_of(ordered(part for name in names for part in name.split(COVERS)))
        found[stage] = merged([*found.get(stage, []), *times])
    return {name: found[name] for name in sorted(found, key=_place)}


def _place(name: str) -> tuple[int, int]:
    covered = name.split(COVERS)
    return STAGES.index(covered[-1]), len(covered)


def _windows(run: RunLog, basis: str) -> list[Interval]:
    """The run's time that a total on this basis counts."""
    whole = _whole(run)
    if whole is None:
        return []
    if basis == stages.END_TO_END:
        return [whole]
    if basis == stages.MODEL_ONLY:
        return merged(stages.settled_intervals(run, stages.MODEL_STAGES))
    shared = by_sharers(
        [("run", whole), *(("load", interval) for interval in stages.settled_intervals(run, ("load",)))]
    )
    return shared.get(frozenset(("run",)), [])


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
    highest = max(_busy_mhz(records), default=None)
    told = [(record, _doubtful(record.throttle_bits)) for record in records]
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
    busy = _busy_mhz(records)
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


def _busy_mhz(records: Sequence[PowerRecord]) -> list[int]:
    return [record.sm_mhz for record in records if record.sm_mhz >= 0 and _is_busy(record)]


@cache
def _doubtful(bits: int) -> list[str]:
    return doubtful_reasons(throttle_reasons(bits if bits >= 0 else None))


def _is_busy(record: PowerRecord) -> bool:
    is_idle = record.throttle_bits >= 0 and record.throttle_bits & IDLE_BIT
    return record.busy_percent >= BUSY_PERCENT and not is_idle


def _dropped(record: PowerRecord, highest: int | None) -> bool:
    return highest is not None and _is_busy(record) and 0 <= record.sm_mhz < DROPPED_TO * highest
