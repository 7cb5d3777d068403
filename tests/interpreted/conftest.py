"""Kernels in Triton's interpreter: see `interpreter`."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import interpreter

torch.set_num_threads(1)
interpreter.multiply_bfloat16()
interpreter.patch_once()
interpreter.leave_out_overflow()


@pytest.fixture
def without_gradients() -> Any:
    with torch.inference_mode():
        yield
