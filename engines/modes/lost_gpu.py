"""A GPU that failed under a process: whatever that process asks of it from then on fails as well."""

from __future__ import annotations

import torch

from evprof.core.errors import GPU_LOST

_SAID = "CUDA error: "


def is_lost_gpu(problem: BaseException) -> bool:
    """Whether an exception says so; that memory ran out has to be ruled out before."""
    return isinstance(problem, torch.AcceleratorError) and str(problem).startswith(_SAID)


def lost_sentence(problem: BaseException) -> str:
    """What happened."""
    reason = str(problem).partition("\n")[0].removeprefix(_SAID).rstrip(".")
    return f"{GPU_LOST} ({reason}), and its engine must start again before the next run."
