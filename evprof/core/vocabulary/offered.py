"""What of a model's choices a machine can carry out with any use, and the reason where it cannot."""

from __future__ import annotations

from typing import Any


def drawback_of(key: str, value: Any, device: str, *, has_cuda: bool) -> str:
    """Why a value of a field of `ModelChoice` is not offered for a model on `device`; "" where it is.

    `has_cuda`: the machine has a CUDA device that torch can use.
    """
    if key == "device" and str(value).startswith("cuda") and not has_cuda:
        return "There is no CUDA device here that torch can use."
    if key == "quantization" and value == "fp8" and _is_on_cpu(device, has_cuda=has_cuda):
        return "8-bit floats need a GPU of compute capability 8.9 or later."
    return ""


def remark_on(key: str, value: Any, device: str, *, has_cuda: bool) -> str:
    """What has to be known of a value that is offered for a model on `device`; "" where nothing has."""
    if key == "quantization" and value is not None and _is_on_cpu(device, has_cuda=has_cuda):
        return "On a CPU this saves memory, not time: every step unpacks the weights."
    return ""


def _is_on_cpu(device: str, *, has_cuda: bool) -> bool:
    return device == "cpu" or (not has_cuda and not device.startswith("cuda"))
