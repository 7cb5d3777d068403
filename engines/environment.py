"""The machine a run happened on: device, versions, threads and the GPU's state, as the JSON's environment block."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import torch
import transformers


def describe_environment(device: torch.device | None = None) -> dict[str, Any]:
    """The block for a run on `device` (default: the first GPU, else the CPU). Costs about a millisecond.

    `gpu` is None without a GPU; a figure the driver withholds is None.
    """
    device = device or torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    is_gpu = device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(device) if is_gpu else cpu_name(),
        "driver": _driver() if is_gpu else None,
        "cuda": torch.version.cuda,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "threads": torch.get_num_threads(),
        "cpus": os.cpu_count(),
        "gpu": gpu_state(device) if is_gpu else None,
    }


def cpu_name() -> str:
    """The processor's name as the system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def gpu_state(device: torch.device) -> dict[str, Any] | None:
    """Clocks, power limit, temperature, throttling and other processes of a GPU by NVML; None without NVML."""
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

    power_mw = ask("nvmlDeviceGetEnforcedPowerLimit")
    processes = ask("nvmlDeviceGetComputeRunningProcesses")
    return {
        "clocks_mhz": ask("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_SM),
        "power_limit_w": None if power_mw is None else power_mw / 1000,
        "temperature_c": ask("nvmlDeviceGetTemperature", pynvml.NVML_TEMPERATURE_GPU),
        "throttle_reasons": throttle_reasons(ask("nvmlDeviceGetCurrentClocksThrottleReasons")),
        "other_processes": None
        if processes is None
        else sum(process.pid not in (os.getpid(), os.getppid()) for process in processes),
    }


_REASONS = {
    0x2: "applications clocks setting",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal slowdown (software)",
    0x40: "thermal slowdown (hardware)",
    0x80: "power brake",
}


def throttle_reasons(bits: int | None) -> list[str] | None:
    """NVML's bit mask in words; idling (0x1) is no reason to mistrust a figure. None when not known."""
    return None if bits is None else [name for bit, name in _REASONS.items() if bits & bit]


def _handle(nvml: Any, device: torch.device) -> Any:
    # By UUID, because CUDA_VISIBLE_DEVICES renumbers torch's devices and not NVML's.
    uuid = str(torch.cuda.get_device_properties(device).uuid)
    name = uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
    try:
        return nvml.nvmlDeviceGetHandleByUUID(name)
    except nvml.NVMLError:
        return nvml.nvmlDeviceGetHandleByIndex(device.index or 0)


def _driver() -> str | None:
    try:
        import pynvml

        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except Exception:  # noqa: BLE001 - NVML's own errors and every way in which its library can be absent
        return None
