"""What the devices of this machine draw, and the memory of the engine process, while a run goes on.

Sampling costs microseconds to about a millisecond a device. The engine never does it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from evprof.core.protocols import Clock, Message, RunDescribed, RunEnded, monotonic_ns
from evprof.core.recording import RecordLog
from evprof.core.records import MemoryRecord, PowerRecord
from evprof.core.run_info import ModelFacts
from evprof.core.units import NS_PER_S


class Meter(Protocol):
    """One device. `device` is its name in the records."""

    device: str

    def read(self) -> dict[str, int]:
        """What it tells now, as fields of PowerRecord; empty when it has stopped telling anything."""


SAMPLES_PER_S = 10
INTERVAL_NS = NS_PER_S // SAMPLES_PER_S


class SampleGrid:
    """The moments of one sampler. A late call does not shift all later ones; a long pause starts a new grid."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due_ns: int | None = None
        self._run_id: int | None = None

    def now_if_due(self, run_id: int) -> int | None:
        """The clock's time when a sample of this run is due, None otherwise. However short a run is, it has one."""
        now = self._clock()
        if run_id != self._run_id:
            self._run_id, self._due_ns = run_id, None
        if self._due_ns is not None and now < self._due_ns:
            return None
        self._due_ns = now + INTERVAL_NS if self._due_ns is None else self._due_ns + INTERVAL_NS
        if self._due_ns <= now:
            self._due_ns = now + INTERVAL_NS
        return now


FOLDER = Path("/sys/class/powercap")

_UNIT = "energy_uj"


class RaplMeter:
    """One package, as a counter that goes on where the kernel's begins again from 0."""

    def __init__(self, zone: Path, device: str) -> None:
        self.device = device
        self._counter = zone / _UNIT
        self._range_uj = _number(zone / "max_energy_range_uj") or 0
        self._raw_uj: int | None = None
        self._laps_uj = 0

    def read(self) -> dict[str, int]:
        raw_uj = _number(self._counter)
        if raw_uj is None:
            return {}
        if self._raw_uj is not None and raw_uj < self._raw_uj:
            self._laps_uj += self._range_uj
        self._raw_uj = raw_uj
        return {"energy_uj": self._laps_uj + raw_uj}


def package_zones(folder: Path | None = None) -> list[Path]:
    """The folders of all packages in the order of their numbers; none where the kernel offers none."""
    here = FOLDER if folder is None else folder
    zones = [zone for zone in here.glob("intel-rapl:*") if zone.name.count(":") == 1]
    named = {zone: _text(zone / "name") or "" for zone in zones}
    return sorted(
        (zone for zone, name in named.items() if name.startswith("package")),
        key=lambda zone: (len(named[zone]), named[zone]),
    )


def rapl_meters(folder: Path | None = None) -> list[RaplMeter]:
    """The packages whose counters may be read, numbered as the kernel numbers them."""
    found = [RaplMeter(zone, f"cpu:{number}") for number, zone in enumerate(package_zones(folder))]
    return [meter for meter in found if meter.read()]


def rapl_problem(folder: Path | None = None) -> str | None:
    """A sentence when there are counters and none may be read; None otherwise."""
    zones = package_zones(folder)
    if not zones or rapl_meters(folder):
        return None
    return f"The processor's energy is not measured: only root may read {zones[0] / _UNIT}."


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text is not None and text.isdecimal() else None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None


_UJ_PER_MJ = 1000


class NvmlMeter:
    """One GPU, read by a handful of calls that take a few microseconds to about a millisecond each."""

    def __init__(self, nvml: Any, handle: Any, device: str) -> None:
        self.device = device
        self._nvml = nvml
        self._questions: dict[str, Callable[[], Any]] = {
            "energy_uj": lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle) * _UJ_PER_MJ,
            "power_mw": lambda: nvml.nvmlDeviceGetPowerUsage(handle),
            "sm_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
            "memory_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
            "temperature_c": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
            "throttle_bits": lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
        }
        self._handle = handle

    def read(self) -> dict[str, int]:
        told = {name: int(value) for name in list(self._questions) if (value := self._ask(name)) is not None}
        return told | self._busy() if told else {}

    def _ask(self, name: str) -> Any:
        try:
            return self._questions[name]()
        except AttributeError:
            del self._questions[name]  # an NVML too old for the question
        except self._nvml.NVMLError as error:
            if error.value == self._nvml.NVML_ERROR_NOT_SUPPORTED:
                del self._questions[name]
        return None

    def _busy(self) -> dict[str, int]:
        try:
            rates = self._nvml.nvmlDeviceGetUtilizationRates(self._handle)
        except (self._nvml.NVMLError, AttributeError):
            return {}
        return {"busy_percent": int(rates.gpu), "memory_busy_percent": int(rates.memory)}


def nvml_meters(environment: Mapping[str, str] | None = None) -> list[NvmlMeter]:
    """The GPUs that CUDA shows to a process with this environment, named as torch numbers them; none without NVML.

    NVML counts in the order of the PCI bus, and so does CUDA where all GPUs are of one kind or CUDA_DEVICE_ORDER says
    so.
    """
    nvml, handles = _nvml()
    names = [str(nvml.nvmlDeviceGetUUID(handle)) for handle in handles]
    shown = _visible(names, (os.environ if environment is None else environment).get("CUDA_VISIBLE_DEVICES"))
    return [NvmlMeter(nvml, handles[place], f"cuda:{number}") for number, place in enumerate(shown)]


def _nvml() -> tuple[Any, list[Any]]:
    """NVML and its handles of all GPUs; no handles where it is absent."""
    try:
        import pynvml

        pynvml.nvmlInit()
        return pynvml, [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    except Exception:  # noqa: BLE001 - NVML's own errors and every way in which its library can be absent
        return None, []


def _visible(names: list[str], wish: str | None) -> list[int]:
    """Places of the GPUs that CUDA_VISIBLE_DEVICES lets through, in its order; what it does not know ends its list."""
    if wish is None:
        return list(range(len(names)))
    found: list[int] = []
    for word in (part.strip() for part in wish.split(",")):
        if word.isdecimal():
            matches = [int(word)] if int(word) < len(names) else []
        else:
            matches = [place for place, name in enumerate(names) if word and name.startswith(word)]
        if len(matches) != 1 or matches[0] in found:
            break
        found += matches
    return found


CPU, GPU = "cpu", "cuda"
"""What the names of devices begin with."""


class PowerSampler:
    """Reads the processor's packages and those GPUs that hold a model of ours.

    Until a message has told which GPUs that are, all visible ones are read: the first sample lies before the run's
    zero, and the models are known soon after.
    """

    def __init__(self, meters: Sequence[Meter] | None = None, *, clock: Clock = monotonic_ns) -> None:
        """`meters` are by default all that this machine has."""
        self._meters: list[Meter] = [*nvml_meters(), *rapl_meters()] if meters is None else list(meters)
        self._clock = clock
        self._gpus: set[str] = set()

    def note(self, message: Message) -> None:
        """A message passed; it may tell where a model is."""
        if isinstance(message, RunDescribed):
            models = message.facts.get("models")
            for facts in models.values() if isinstance(models, dict) else ():
                device = facts.device if isinstance(facts, ModelFacts) else facts.get("device")
                if isinstance(device, str) and device.startswith(GPU):
                    self._gpus.add(device if ":" in device else f"{device}:0")

    def sample(self, run_id: int) -> list[PowerRecord]:
        """A record per device now: also for the end of a run, whose last tenth of a second counts like the others."""
        found = []
        for meter in self._meters:
            if meter.device.startswith(GPU) and self._gpus and meter.device not in self._gpus:
                continue
            before = self._clock()
            if reading := meter.read():
                found.append(PowerRecord(run_id, (before + self._clock()) // 2, meter.device, **reading))
        return found


NO_GPU = -1


class RunSamplers:
    """Memory of the engine process, and the power of devices. Owns the streams "memory" and "power"."""

    def __init__(
        self, pid: int, *, clock: Clock = monotonic_ns, meters: Sequence[Meter] | None = None, nvml: Any = None
    ) -> None:
        """`meters` and `nvml`, the library and its handles, are by default this machine's."""
        self._pid = pid
        self._grid = SampleGrid(clock)
        self._power = PowerSampler(meters, clock=clock)
        library, handles = nvml or _nvml()
        self._nvml: Any = library
        self._handles: list[Any] = handles
        import psutil

        self._gone = psutil.Error
        self._process: psutil.Process | None = None
        with contextlib.suppress(self._gone):
            self._process = psutil.Process(pid)

    def sample(self, run_ids: tuple[int, ...], recording: RecordLog) -> None:
        """Appends what is due: at the first call for a run, and then every tenth of a second."""
        if run_ids and (now := self._grid.now_if_due(run_ids[-1])) is not None:
            with contextlib.suppress(self._gone):
                if self._process is not None:
                    rss_bytes = int(self._process.memory_info().rss)
                    recording.append(MemoryRecord(run_ids[-1], now, rss_bytes, self._gpu_bytes()))
            recording.extend("power", self._power.sample(run_ids[-1]))

    def _gpu_bytes(self) -> int:
        """The bytes that the process holds on all GPUs; NO_GPU when NVML or the figure is missing.

        Inside a container NVML may list no process of ours, or hide the figure: that is "not known", never 0.
        """
        used: list[Any] = []
        for handle in self._handles:
            with contextlib.suppress(self._nvml.NVMLError):
                processes = self._nvml.nvmlDeviceGetComputeRunningProcesses(handle)
                used += [entry.usedGpuMemory for entry in processes if entry.pid == self._pid]
        known = [count for count in used if count is not None]
        return sum(known) if known else NO_GPU

    def note(self, message: Message, recording: RecordLog) -> None:
        """To be called before a message is posted: it may tell where models are, and a run's end is a last sample."""
        self._power.note(message)
        if isinstance(message, RunEnded):
            recording.extend("power", self._power.sample(message.run_id))
