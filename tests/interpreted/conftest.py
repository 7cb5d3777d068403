"""Kernels in Triton's interpreter: see `interpreter`."""

from __future__ import annotations

import torch

import interpreter

torch.set_num_threads(1)
interpreter.multiply_bfloat16()
interpreter.patch_once()
interpreter.leave_out_overflow()
