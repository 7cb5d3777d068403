"""The machine of a run as the environment block of the JSON: device, versions, threads, the GPU and its state."""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
import warnings
from collections.abc import Callable
from functools import cache, partial
from importlib import metadata
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import torch

from engines.decoder.attention import attention_backends
from engines.hardware.gpu_state import driver_version, gpu_state
from evprof.core.run_info import ENGINE_SESSION
from evprof.version import __version__

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
