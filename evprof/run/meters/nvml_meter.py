"""Energy (a counter, on Volta and later), power, clocks, temperature and slowdowns of NVIDIA GPUs by NVML."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from evprof.run.meters.meter import Reading

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
        self._utilization: Callable[[], Any] = lambda: nvml.nvmlDeviceGetUtilizationRates(handle)

    def read(self) -> Reading | None:
        """Everything this GPU tells now; None when it tells nothing."""
        told = {name: int(value) for name in list(self._questions) if (value := self._ask(name)) is not None}
        shares = self._busy()
        return Reading(**told, **shares) if told else None

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
            rates = self._utilization()
        except (self._nvml.NVMLError, AttributeError):
            return {}
        return {"busy_percent": int(rates.gpu), "memory_busy_percent": int(rates.memory)}


def nvml_meters(environment: Mapping[str, str] | None = None) -> list[NvmlMeter]:
    """The GPUs that CUDA shows to a process with this environment, named as torch numbers them; none without NVML.

    NVML counts in the order of the PCI bus, and so does CUDA where all GPUs are of one kind or CUDA_DEVICE_ORDER says
    so.
    """
    try:
        import pynvml

        pynvml.nvmlInit()
        listed = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        names = [str(pynvml.nvmlDeviceGetUUID(handle)) for handle in listed]
    except Exception:  # noqa: BLE001 - NVML's own errors and every way in which its library can be absent
        return []
    shown = _visible(names, (os.environ if environment is None else environment).get("CUDA_VISIBLE_DEVICES"))
    return [NvmlMeter(pynvml, listed[place], f"cuda:{number}") for number, place in enumerate(shown)]


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
