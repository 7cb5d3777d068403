"""Whether this machine has the device that is asked for, and can do there what is asked; asked without torch."""

from __future__ import annotations

import os
import re
from importlib import metadata

from evprof.core.errors import USAGE, UserError
from evprof.core.suggestions import did_you_mean
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.core.vocabulary.setting import Situation
from evprof.core.vocabulary.settings import SETTINGS

_DEVICE = re.compile(r"auto|cpu|cuda(:\d{1,3})?")

_ALSO_CALLED = {"gpu": "cuda", "nvidia": "cuda", "gpu:0": "cuda", "gpu:1": "cuda:1", "processor": "cpu"}


def check_device(name: str) -> None:
    """Raises UserError for a device that is not there (exit code 1), or is none (2)."""
    if not _DEVICE.fullmatch(name):
        meant = _ALSO_CALLED.get(name.lower())
        guess = f"; did you mean {meant}?" if meant else did_you_mean(name, ("auto", "cpu", "cuda"))
        raise UserError(f"Unknown device '{name}'{guess or ';'} Choose auto, cpu, cuda or cuda:1.", exit_code=USAGE)
    if name.startswith("cuda") and (reason := cuda_problem()):
        raise UserError(f"Device '{name}' is not available: {reason}; use --device cpu.")


def cuda_problem() -> str:
    """Why nothing can run on CUDA here, "" where it seems it can: torch itself has the last word."""
    from evprof.run.gpu_bench.driving import has_gpu

    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return ""
    if version.endswith("+cpu"):
        return "this PyTorch was built without CUDA"
    return "" if "rocm" in version or has_gpu() else "no NVIDIA GPU was found"


def check_needs_of_device(mode: str, settings: GenerationSettings, devices: list[str]) -> None:
    """Raises UserError (exit code 2) for a setting that needs a GPU where every model is to run on a CPU."""
    if any(device.startswith("cuda") for device in devices) or ("auto" in devices and not cuda_problem()):
        return
    values = settings.flat()
    for key, entry in SETTINGS.items():
        value = values.get(key)
        if key not in values or value == entry.default or (value == "fused" and os.environ.get("TRITON_INTERPRET")):
            continue
        with_gpu, without = (
            entry.refuses(Situation(mode, values, has_cuda=has_cuda), value) for has_cuda in (True, False)
        )
        if without and not with_gpu:
            raise UserError(f"{entry.flag} {value}: {without} Here all run on the CPU.", exit_code=USAGE)
