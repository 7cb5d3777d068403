"""Memory of the engine process over time: resident bytes from the system, GPU bytes from NVML where there is one.

Sampling costs microseconds to about a millisecond and is done by whoever owns the "memory" stream, never by the engine.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from evprof.core.errors import USAGE, UserError
from evprof.core.protocols import Clock, Message, RunEnded, monotonic_ns
from evprof.core.recording import RecordLog
from evprof.core.records import MemoryRecord
from evprof.core.units import NS_PER_S
from evprof.run.meters.power_sampler import PowerSampler, SampleGrid, nvml_meters

NO_GPU = -1


class MemorySampler:
    """Samples one process. `sample_if_due` is called as often as one likes and keeps to ten samples a second."""

    def __init__(self, pid: int, *, clock: Clock = monotonic_ns, gpu_bytes: Callable[[int], int] | None = None) -> None:
        """`gpu_bytes` answers for a pid; by default NVML does, when it is there."""
        self._pid = pid
        self._grid = SampleGrid(clock)
        self._rss_bytes = _rss_reader(pid)
        self._gpu_bytes = gpu_bytes or nvml_process_bytes()

    def sample_if_due(self, run_id: int) -> MemoryRecord | None:
        """A sample for `run_id` at its first call and then every tenth of a second.

        None otherwise, and when the process is gone.
        """
        now = self._grid.now_if_due(run_id)
        if now is None:
            return None
        rss_bytes = self._rss_bytes()
        if rss_bytes is None:
            return None
        return MemoryRecord(run_id, now, rss_bytes, self._gpu_bytes(self._pid))


def _rss_reader(pid: int) -> Callable[[], int | None]:
    import psutil

    try:
        process = psutil.Process(pid)
    except psutil.Error:
        return lambda: None

    def ask_system() -> int | None:
        try:
            return int(process.memory_info().rss)
        except psutil.Error:
            return None

    return ask_system


def nvml_process_bytes() -> Callable[[int], int]:
    """A function from pid to the bytes it holds on all GPUs; it answers NO_GPU when NVML or the figure is missing.

    Inside a container NVML may list no process of ours, or hide the figure: that is "not known", never 0.
    """
    try:
        import pynvml

        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
    except Exception:  # noqa: BLE001 - NVML's own errors and every way in which its library can be absent
        return lambda pid: NO_GPU

    def ask_driver(pid: int) -> int:
        used: list[Any] = []
        for handle in handles:
            try:
                processes = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
            except pynvml.NVMLError:
                continue
            used += [entry.usedGpuMemory for entry in processes if entry.pid == pid]
        known = [count for count in used if count is not None]
        return sum(known) if known else NO_GPU

    return ask_driver


class RunSamplers:
    """The samplers of one engine process."""

    def __init__(self, pid: int, *, clock: Clock = monotonic_ns) -> None:
        self._memory = MemorySampler(pid, clock=clock)
        self._power = PowerSampler(clock=clock)

    def sample(self, run_ids: tuple[int, ...], recording: RecordLog) -> None:
        """Appends what is due for the last of the runs that go on."""
        if not run_ids:
            return
        if memory := self._memory.sample_if_due(run_ids[-1]):
            recording.append(memory)
        recording.extend("power", self._power.sample_if_due(run_ids[-1]))

    def note(self, message: Message, recording: RecordLog) -> None:
        """To be called before a message is posted: it may tell where models are, and a run's end is a last sample."""
        self._power.note(message)
        if isinstance(message, RunEnded):
            recording.extend("power", self._power.sample(message.run_id))


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
    """Reads the hottest of the GPUs that NVML shows."""
    meters = nvml_meters()

    def hottest() -> int | None:
        readings = (meter.read() for meter in meters)
        return max((found.temperature_c for found in readings if found and found.temperature_c >= 0), default=None)

    return hottest
