"""The state of an NVIDIA GPU by NVML: clocks, power, temperature, throttling, who else computes on it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import torch

from evprof.core.vocabulary.figures import HOT_C, doubtful_reasons, throttle_reasons


def gpu_state(device: torch.device) -> dict[str, Any] | None:
    """Clocks, power, temperature, throttling and other processes of a GPU; None for a CPU or without NVML. Takes a few
    milliseconds."""
    opened = _opened(device)
    if opened is None:
        return None
    nvml, ask = opened
    limit_mw = ask("nvmlDeviceGetEnforcedPowerLimit")
    drawn_mw = ask("nvmlDeviceGetPowerUsage")
    processes = ask("nvmlDeviceGetComputeRunningProcesses")
    return {
        "clocks_mhz": ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
        "memory_clocks_mhz": ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM),
        "most_clocks_mhz": ask("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM),
        "power_limit_w": None if limit_mw is None else limit_mw / 1000,
        "power_w": None if drawn_mw is None else drawn_mw / 1000,
        "temperature_c": ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
        "throttle_reasons": throttle_reasons(ask("nvmlDeviceGetCurrentClocksThrottleReasons")),
        "other_processes": None if processes is None else _others([process.pid for process in processes]),
    }


def gpu_warnings(start: dict[str, Any] | None, end: dict[str, Any] | None) -> list[str]:
    states = [state for state in (start, end) if state is not None]
    reasons: list[str] = []
    for state in states:
        reasons += [name for name in doubtful_reasons(state.get("throttle_reasons")) if name not in reasons]
    others = max((state.get("other_processes") or 0 for state in states), default=0)
    said = []
    if reasons:
        clocks = [f"{state['clocks_mhz']:,} MHz" for state in states if state.get("clocks_mhz") is not None]
        at = f" (at {' and '.join(dict.fromkeys(clocks))})" if clocks else ""
        said.append(f"The GPU was slowed down by {' and '.join(reasons)}{at}; its times are not what it can do.")
    elif any((state.get("temperature_c") or 0) >= HOT_C for state in states):
        hottest = max(state.get("temperature_c") or 0 for state in states)
        said.append(f"The GPU was {hottest} °C hot, where clocks go down; let it cool before comparing times.")
    if others:
        who = "another process" if others == 1 else f"{others} other processes"
        said.append(f"The GPU was shared with {who}; times and free memory are not this run's alone.")
    return said


class GpuWatch:
    def __init__(self, devices: Iterable[torch.device]) -> None:
        self._start = {device: gpu_state(device) for device in dict.fromkeys(devices) if device.type == "cuda"}

    def look_again(self) -> tuple[dict[torch.device, dict[str, Any] | None], list[str]]:
        now = {device: gpu_state(device) for device in self._start}
        said = [
            sentence.replace("The GPU", f"The GPU {device}", 1) if len(now) > 1 else sentence
            for device, state in now.items()
            for sentence in gpu_warnings(self._start[device], state)
        ]
        return now, said


def driver_version() -> str | None:
    try:
        import pynvml

        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except Exception:  # noqa: BLE001 - NVML's own errors and every way in which its library can be absent
        return None


def _opened(device: torch.device) -> tuple[Any, Callable[..., Any]] | None:
    if device.type != "cuda":
        return None
    try:
        import pynvml

        pynvml.nvmlInit()
        handle = _handle(pynvml, device)
    except Exception:  # noqa: BLE001 - NVML's own errors and every way in which its library can be absent
        return None

    def ask(name: str, *words: Any) -> Any:
        try:
            return getattr(pynvml, name)(handle, *words)
        except (pynvml.NVMLError, AttributeError):
            return None

    return pynvml, ask


def _others(pids: list[int]) -> int:
    foreign = sum(pid not in (os.getpid(), os.getppid()) for pid in pids)
    # In a container the driver may count processes by the host's numbers, and one of them is this one.
    is_hidden = torch.cuda.is_initialized() and os.getpid() not in pids
    return max(foreign - is_hidden, 0)


def _handle(nvml: Any, device: torch.device) -> Any:
    # By UUID, because CUDA_VISIBLE_DEVICES renumbers torch's devices and not NVML's.
    uuid = str(torch.cuda.get_device_properties(device).uuid)
    name = uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
    try:
        return nvml.nvmlDeviceGetHandleByUUID(name)
    except nvml.NVMLError:
        return nvml.nvmlDeviceGetHandleByIndex(device.index or 0)
