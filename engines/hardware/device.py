"""Which device and which arithmetic: "auto" made concrete, and wishes this machine cannot meet refused."""

from __future__ import annotations

import torch

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
    """`auto`: float32 on a CPU, bfloat16 on a GPU that computes in it, float16 on older ones."""
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
