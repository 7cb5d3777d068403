"""What of a model's choices a machine can carry out with any use, and the reason where it cannot."""

from __future__ import annotations

from typing import Any


def drawback_of(key: str, value: Any, device: str, *, has_cuda: bool) -> str:
    """Why a value of a field of `ModelChoice` is not offered for a model on `device`; "" where it is.

    `has_cuda`: the machine has a CUDA device that torch can use.
    """
    if key == "device" and str(value).startswith("cuda") and not has_cuda:
        return "There is no CUDA device here that torch can use."
    is_on_cpu = device == "cpu" or (not has_cuda and not device.startswith("cuda"))
    if key == "quantization" and value == "int4" and is_on_cpu:
        return "int4 is computed by a CUDA kernel; on a CPU every step would unpack all weights. Choose nf4 or int8."
    return ""
