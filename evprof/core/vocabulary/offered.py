"""What of a model's choices a machine can carry out with any use, and the reason where it cannot."""

from __future__ import annotations

from typing import Any


def drawback_of(key: str, value: Any, device: str, *, has_cuda: bool) -> str:
    """Why a value of a field of `ModelChoice` is not offered for a model on `device`; "" where it is.

    `has_cuda`: the machine has a CUDA device that torch can use.
    """
    if key == "device" and str(value).startswith("cuda") and not has_cuda:
        return "There is no CUDA device here that torch can use."
    return ""


def remark_on(key: str, value: Any, device: str, *, has_cuda: bool) -> str:
    """What has to be known of a value that is offered for a model on `device`; "" where nothing has."""
    is_on_cpu = device == "cpu" or (not has_cuda and not device.startswith("cuda"))
    if key == "quantization" and value is not None and is_on_cpu:
        return "On a CPU this saves memory, not time: every step unpacks the weights."
    return ""
