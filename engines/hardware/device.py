"""Devices, dtypes, memory and CPU threads of this machine, or of an assumed machine."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path

import torch

from engines.stages.model import VisionLanguageModel
from evprof.core.errors import USAGE, UserError
from evprof.core.vocabulary.settings import choices_of

TORCH_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def choose_device(name: str) -> torch.device:
    """`auto` (the first GPU, else the CPU), `cpu`, `cuda` or `cuda:1`. Raises UserError when it is not there."""
    if name == "auto":
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    kind, _, index = name.partition(":")
    if kind == "cpu" and not index:
        return torch.device("cpu")
    if kind != "cuda" or (index and not index.isdigit()):
        raise UserError(f"Unknown device '{name}'; choose auto, cpu, cuda or cuda:1.", exit_code=USAGE)
    if not torch.cuda.is_available():
        reason = "this PyTorch was built without CUDA" if torch.version.cuda is None else "no NVIDIA GPU was found"
        raise UserError(f"Device '{name}' is not available: {reason}; use --device cpu.")
    number = int(index or 0)
    if number >= torch.cuda.device_count():
        raise UserError(f"Device '{name}' is not there: this machine has {torch.cuda.device_count()} GPU(s).")
    return torch.device("cuda", number)


def choose_dtype(name: str, device: torch.device) -> torch.dtype:
    if name == "auto":
        if device.type == "cpu":
            return torch.float32
        with torch.cuda.device(device):
            return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    if name not in TORCH_DTYPES:
        raise UserError(f"Unknown dtype '{name}'; choose one of {', '.join(choices_of('dtype'))}.", exit_code=USAGE)
    return TORCH_DTYPES[name]


def dtype_name(dtype: torch.dtype) -> str:
    """`bfloat16` for torch.bfloat16."""
    return str(dtype).removeprefix("torch.")


_LIBRARIES = {"nf4": "bitsandbytes"}


class Machine:
    """The devices PyTorch sees, and what is free on them now. `is_assumed`: they need not be here."""

    is_assumed = False

    def device(self, name: str) -> torch.device:
        """The device of a name. Raises UserError if it is missing."""
        return choose_device(name)

    def dtype(self, name: str, device: torch.device) -> torch.dtype:
        """The dtype of a name on a device. Raises UserError for an unknown one."""
        return choose_dtype(name, device)

    def free_bytes(self, device: torch.device) -> int:
        return free_bytes(device)

    def devices(self) -> list[str]:
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        return [*(f"cuda:{index}" for index in range(count)), "cpu"]

    def can_pack(self, kind: str) -> bool:
        library = _LIBRARIES.get(kind)
        return library is None or importlib.util.find_spec(library) is not None


class PartOfMachine(Machine):
    """The same where several engines share the memory beside the CPU; each has a GPU of its own, or none."""

    def __init__(self, engines: int) -> None:
        self._engines = engines

    def free_bytes(self, device: torch.device) -> int:
        return super().free_bytes(device) // (self._engines if device.type == "cpu" else 1)


class AssumedMachine(Machine):
    """Devices that have so many bytes free each, whether or not they are here; "auto" is a GPU in bfloat16."""

    is_assumed = True

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes

    def device(self, name: str) -> torch.device:
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
        return self.size_bytes

    def devices(self) -> list[str]:
        return ["cuda:0", "cuda:1"]

    def can_pack(self, kind: str) -> bool:
        return True


def free_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free) + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    import psutil

    return min(int(psutil.virtual_memory().available), _container_bytes())


def _container_bytes() -> int:
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


SMALL_PARAMETERS = 30_000_000
"""Below this a decode step's matrices are a few hundred kilobytes: less than the cost of handing them out."""

_DEFAULT = torch.get_num_threads()


def use_threads(models: Iterable[VisionLanguageModel]) -> int:
    """Sets PyTorch's threads for a run of these models; returns the number. `OMP_NUM_THREADS` stays the upper limit."""
    count = thread_count(model.facts.parameters for model in models if model.device.type == "cpu")
    if torch.get_num_threads() != count:
        torch.set_num_threads(count)
    return count


def thread_count(parameters: Iterable[int]) -> int:
    return 1 if all(count < SMALL_PARAMETERS for count in parameters) else _DEFAULT


def split_threads(total: int) -> tuple[int, int]:
    draft = max(1, total // 4)
    return draft, max(1, total - draft)
