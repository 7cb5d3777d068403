"""What memory there is: on this machine, or on one that is only assumed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Protocol

import torch

from engines.hardware.device import TORCH_DTYPES, choose_device, choose_dtype

_LIBRARIES = {"nf4": "bitsandbytes"}


class Machine(Protocol):
    """Devices and what is free on them; `is_assumed`: they need not be here."""

    is_assumed: bool

    def device(self, name: str) -> torch.device:
        """The device of a name. Raises UserError when it is not there."""

    def dtype(self, name: str, device: torch.device) -> torch.dtype:
        """The dtype of a name on a device. Raises UserError for an unknown one."""

    def free_bytes(self, device: torch.device) -> int:
        """Bytes that can be had on a device."""

    def devices(self) -> list[str]:
        """Every device, GPUs first, as torch spells them."""

    def can_pack(self, kind: str) -> bool:
        """Whether the library for weights of a kind of QUANTIZATIONS is installed."""


class ThisMachine:
    """The devices PyTorch sees, and what is free on them now."""

    is_assumed = False

    def device(self, name: str) -> torch.device:
        """The device of a name."""
        return choose_device(name)

    def dtype(self, name: str, device: torch.device) -> torch.dtype:
        """The dtype of a name on a device."""
        return choose_dtype(name, device)

    def free_bytes(self, device: torch.device) -> int:
        """Bytes free now."""
        return free_bytes(device)

    def devices(self) -> list[str]:
        """The GPUs, then the CPU."""
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        return [*(f"cuda:{index}" for index in range(count)), "cpu"]

    def can_pack(self, kind: str) -> bool:
        """Looked up, not imported."""
        library = _LIBRARIES.get(kind)
        return library is None or importlib.util.find_spec(library) is not None


class PartOfMachine(ThisMachine):
    """The same where several engines share the memory beside the CPU; each has a GPU of its own, or none."""

    def __init__(self, engines: int) -> None:
        self._engines = engines

    def free_bytes(self, device: torch.device) -> int:
        """An engine's part of what is free now."""
        return super().free_bytes(device) // (self._engines if device.type == "cpu" else 1)


class AssumedMachine:
    """Devices that have so many bytes free each, whether or not they are here; "auto" is a GPU in bfloat16."""

    is_assumed = True

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes

    def device(self, name: str) -> torch.device:
        """The device of a name; "cuda" and "auto" are the first GPU."""
        if name in ("auto", "cuda"):
            return torch.device("cuda:0")
        if name == "cpu" or (name.startswith("cuda:") and name.removeprefix("cuda:").isdigit()):
            return torch.device(name)
        return choose_device(name)

    def dtype(self, name: str, device: torch.device) -> torch.dtype:
        """The dtype of a name; "auto" is float32 on a CPU and bfloat16 on a GPU."""
        if name == "auto":
            return torch.float32 if device.type == "cpu" else torch.bfloat16
        return TORCH_DTYPES[name] if name in TORCH_DTYPES else choose_dtype(name, device)

    def free_bytes(self, device: torch.device) -> int:
        """The assumed size, on every device alike."""
        return self.size_bytes

    def devices(self) -> list[str]:
        """Two GPUs: a second one is what can be bought."""
        return ["cuda:0", "cuda:1"]

    def can_pack(self, kind: str) -> bool:
        """What can be had can be installed."""
        return True


def free_bytes(device: torch.device) -> int:
    """Bytes that can still be had on a device now: the GPU's, or the machine's (and the container's) memory.

    What PyTorch keeps cached for itself counts as free: it is given to the next tensor.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free) + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    import psutil

    return min(int(psutil.virtual_memory().available), _container_bytes())


def _container_bytes() -> int:
    """What the control group of a Linux container still allows; practically unlimited elsewhere."""
    unlimited = 1 << 62
    folder = Path("/sys/fs/cgroup")
    try:
        limit = (folder / "memory.max").read_text().strip()
        used = int((folder / "memory.current").read_text())
        cached = next(
            int(line.split()[1])
            for line in (folder / "memory.stat").read_text().splitlines()
            if line.startswith("inactive_file ")
        )
    except (OSError, ValueError, StopIteration):
        return unlimited
    return unlimited if limit == "max" else max(int(limit) - used + cached, 0)
