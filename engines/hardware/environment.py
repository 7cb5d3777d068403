"""The machine a run happened on: device, versions, threads and the GPU's state, as the JSON's environment block."""

from __future__ import annotations

import os
import platform
import secrets
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from engines.decoder.attention import attention_backends
from engines.hardware.card import NOTHING, card_facts, told
from engines.hardware.gpu_state import driver_version, gpu_state
from evprof.core.run_info import ENGINE_SESSION
from evprof.version import __version__

_SESSION = secrets.token_hex(4)
"""Names this process: memory lies differently in the next one, and with it times differ."""


def describe_environment(device: torch.device | None = None) -> dict[str, Any]:
    """The block for a run on `device` (default: the first GPU, else the CPU). Costs about a millisecond.

    Allocates nothing, and a GPU that fails is no error. `gpu` is None without a GPU; a figure the driver withholds is
    None. `attention_backends` are PyTorch's kernels of attention, in their order and those that are on; the keys of
    `card_facts` are None without a GPU.
    """
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
    """The processor's name as the system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
