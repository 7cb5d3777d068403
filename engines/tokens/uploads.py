"""Numbers of the host on their way to a device, without anybody waiting.

A copy from ordinary memory to a GPU waits until the GPU has done all that was queued before; one from pinned memory
is queued like any other work. PyTorch keeps pinned memory until its copy is done, and reuses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def upload(values: Sequence[Any], device: torch.device, dtype: torch.dtype = torch.long) -> torch.Tensor:
    if device.type != "cuda":
        return torch.tensor(values, device=device, dtype=dtype)
    return torch.tensor(values, dtype=dtype, pin_memory=True).to(device, non_blocking=True)


def moved(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    if device.type == "cuda" and tensor.device.type == "cpu" and tensor.numel():
        # A part of a tensor would be brought into one piece on the way, and that piece is not pinned.
        return tensor.contiguous().pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
