"""The machine of a run as the environment block of the JSON: device, versions, threads, the GPU and its state."""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
import warnings
from collections.abc import Callable, Iterable
from functools import cache, partial
from importlib import metadata
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import torch

from engines.decoder.attention import attention_backends
from evprof.core.run_info import ENGINE_SESSION
from evprof.core.vocabulary.figures import HOT_C, doubtful_reasons, throttle_reasons
from evprof.version import __version__


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


Told = TypeVar("Told")

NOTHING: dict[str, Any] = dict.fromkeys(
    (
        "gpu_id",
        "compute_capability",
        "sm_count",
        "gpu_memory_bytes",
        "cudnn",
        "cublas",
        "triton",
        "tf32",
        "reduced_precision",
        "allocator",
    )
)
"""The facts of a run without a GPU: none of them applies."""


def card_facts(device: torch.device) -> dict[str, Any]:
    """Every key of NOTHING for a CUDA device; None if unknown. `gpu_id` is a hash of the UUID. `tf32` and
    `reduced_precision` say what PyTorch may round. Waits for nothing."""
    found = torch.cuda.get_device_properties(device)
    matmul = torch.backends.cuda.matmul
    uuid = getattr(found, "uuid", None)
    return NOTHING | {
        "gpu_id": None if uuid is None else hashlib.sha256(str(uuid).encode()).hexdigest()[:12],
        "compute_capability": f"{found.major}.{found.minor}",
        "sm_count": found.multi_processor_count,
        "gpu_memory_bytes": found.total_memory,
        "cudnn": cudnn_text(told(torch.backends.cudnn.version)),
        "cublas": version_of(("nvidia-cublas", "nvidia-cublas-cu13", "nvidia-cublas-cu12")),
        "triton": version_of(("triton", "pytorch-triton", "triton-windows")),
        "tf32": {
            "matmul": told(lambda: bool(matmul.allow_tf32)),
            "cudnn": told(lambda: bool(torch.backends.cudnn.allow_tf32)),
        },
        "reduced_precision": {
            "bfloat16": bool(matmul.allow_bf16_reduced_precision_reduction),
            "float16": bool(matmul.allow_fp16_reduced_precision_reduction),
        },
        "allocator": os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF"),
    }


def architectures() -> list[str]:
    return list(torch.cuda.get_arch_list())


def gpu_complaints() -> list[str]:
    """What torch warns of when it first uses the GPU: a driver that is too old, a card that it has no code for."""
    with warnings.catch_warnings(record=True) as complaints:
        warnings.simplefilter("always")
        if torch.cuda.is_available():
            torch.cuda.init()
    return [" ".join(str(complaint.message).split()) for complaint in complaints]


def told(ask: Callable[[], Told]) -> Told | None:
    """A setting of PyTorch; None if it was set by old and new names, which PyTorch refuses to report."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ask()
        except RuntimeError:
            return None


def cudnn_text(number: int | None) -> str | None:
    """`9.10.2` for 91002, `8.9.7` for 8907."""
    if number is None:
        return None
    major = 10_000 if number >= 10_000 else 1000
    return f"{number // major}.{number % major // 100}.{number % 100}"


@cache
def version_of(names: tuple[str, ...]) -> str | None:
    for name in names:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


_SESSION = secrets.token_hex(4)
"""Names this process: memory lies differently in the next one, and with it times differ."""


def describe_environment(device: torch.device | None = None) -> dict[str, Any]:
    """The block for a run on `device` (default: the first GPU, else the CPU), in about a millisecond. Allocates
    nothing, and tolerates a failing GPU. Figures that the driver withholds are None, and the keys of `card_facts`
    without a GPU."""
    device = device or torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    is_gpu = device.type == "cuda"
    name = told(partial(torch.cuda.get_device_name, device)) or str(device) if is_gpu else cpu_name()
    card = told(partial(card_facts, device)) if is_gpu else None
    return {
        "evprof": __version__,
        "device": name,
        "processor": cpu_name(),
        "driver": driver_version() if is_gpu else None,
        "cuda": torch.version.cuda,
        "torch": str(torch.__version__),  # its own is of a class of torch: whoever unpickles that loads torch
        "transformers": version("transformers"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "threads": torch.get_num_threads(),
        "cpus": os.cpu_count(),
        "float32_matmul": told(torch.get_float32_matmul_precision),
        "attention_backends": attention_backends(),
        **(card or NOTHING),
        "gpu": gpu_state(device) if is_gpu else None,
        ENGINE_SESSION: _SESSION,
    }


@cache
def cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
