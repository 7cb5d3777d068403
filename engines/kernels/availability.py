"""Whether Triton's kernels can run here: they need Triton, and a CUDA device or Triton's interpreter."""

from __future__ import annotations

import importlib
import os

import torch

INTERPRETER = "TRITON_INTERPRET"
"""The variable that makes Triton compute on a CPU; Triton reads it when it is imported."""


def is_interpreted() -> bool:
    """Whether kernels are interpreted on a CPU: right, and thousands of times slower. Only for tests."""
    return os.environ.get(INTERPRETER, "") == "1"


def kernels_problem(device: torch.device) -> str:
    """Why the kernels cannot run on a device, without a full stop; "" where they can."""
    if device.type != "cuda" and not is_interpreted():
        return f"its kernels need a CUDA device, and the model is on {device}"
    try:
        importlib.import_module("triton")
    except (ImportError, OSError, RuntimeError):
        return "Triton, in which its kernels are written, is not installed"
    return ""
