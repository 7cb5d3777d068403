"""What a device tells at a moment about its power and its state."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Reading(NamedTuple):
    """As in `evprof.core.records.PowerRecord`: -1 for what the device does not tell."""

    energy_uj: int = -1
    power_mw: int = -1
    sm_mhz: int = -1
    memory_mhz: int = -1
    temperature_c: int = -1
    throttle_bits: int = -1
    busy_percent: int = -1
    memory_busy_percent: int = -1


class Meter(Protocol):
    """One device. `device` is its name in the records."""

    device: str

    def read(self) -> Reading | None:
        """What it tells now; None when it has stopped telling anything."""
