"""Rest between runs: so many seconds, or until the GPUs are cool enough."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from evprof.core.errors import USAGE, UserError
from evprof.core.protocols import Clock, monotonic_ns
from evprof.core.units import NS_PER_S
from evprof.run.meters.power_sampler import nvml_meters

LIMIT_S = 600.0

LOOK_S = 1.0

_WORD = re.compile(r"(\d+(?:\.\d+)?)\s*(s|C|°C)?\Z", re.IGNORECASE)

Thermometer = Callable[[], int | None]
"""Tells the temperature of the hottest GPU in °C; None where none tells one."""


@dataclass(frozen=True)
class Cooldown:
    """What is waited for before every row but the first: `seconds`, or a temperature in °C of the hottest GPU."""

    seconds: float = 0.0
    temperature_c: float | None = None

    @classmethod
    def of(cls, value: Any) -> Cooldown:
        """From `30` or `"30s"` (seconds) or `"60C"`; None is no wait. Raises UserError (exit code 2) for others."""
        if value is None:
            return cls()
        found = None if isinstance(value, bool) else _WORD.match(str(value).strip())
        if found is None:
            raise UserError(
                f"cooldown must be seconds such as 30, or a temperature such as 60C, not {value!r}.", exit_code=USAGE
            )
        number, is_time = float(found[1]), (found[2] or "s").lower() == "s"
        if is_time and number > LIMIT_S:
            raise UserError(f"cooldown must be at most {LIMIT_S:.0f} seconds, not {number:g}.", exit_code=USAGE)
        return cls(seconds=number) if is_time else cls(temperature_c=number)

    def __bool__(self) -> bool:
        return self.seconds > 0 or self.temperature_c is not None

    def __str__(self) -> str:
        return f"{self.seconds:g} s" if self.temperature_c is None else f"{self.temperature_c:g} °C"


class CoolingPause:
    """Waits as a Cooldown says; `say` hears a sentence when a temperature cannot be read or is not reached."""

    def __init__(
        self,
        asked: Cooldown,
        stop: threading.Event,
        say: Callable[[str], None],
        *,
        thermometer: Thermometer | None = None,
        clock: Clock = monotonic_ns,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        """`stop` ends a wait; `wait` waits so many seconds and says whether it was stopped."""
        self._asked = asked
        self._say = say
        self._thermometer = thermometer or (nvml_thermometer() if asked.temperature_c is not None else lambda: None)
        self._clock = clock
        self._wait = wait or stop.wait
        self._is_blind = False

    def rest(self) -> None:
        """Returns when it is time for the next row, or at once when stopped."""
        if self._asked.temperature_c is None:
            if self._asked.seconds:
                self._wait(self._asked.seconds)
            return
        begun_ns, limit_c = self._clock(), self._asked.temperature_c
        while (found := self._thermometer()) is not None and found > limit_c:
            if self._clock() - begun_ns >= LIMIT_S * NS_PER_S:
                self._say(
                    f"a GPU is still at {found} °C after {LIMIT_S / 60:.0f} minutes of waiting for {limit_c:g} °C; the "
                    "next row is measured all the same"
                )
                return
            if self._wait(LOOK_S):
                return
        if found is None and not self._is_blind:
            self._is_blind = True
            self._say(f"no GPU tells its temperature, so rows do not wait for {limit_c:g} °C; give --cooldown seconds")


def nvml_thermometer() -> Thermometer:
    meters = nvml_meters()

    def hottest() -> int | None:
        readings = (meter.read() for meter in meters)
        return max((found.temperature_c for found in readings if found and found.temperature_c >= 0), default=None)

    return hottest
