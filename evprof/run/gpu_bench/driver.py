"""Whether this machine has an NVIDIA GPU, asked of its driver alone: torch takes seconds to load."""

from __future__ import annotations

import ctypes
import sys


def has_gpu() -> bool:
    """Whether a driver is there and finds a GPU; makes no context on it."""
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        count = ctypes.c_int()
        return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
    except (OSError, AttributeError):
        return False
