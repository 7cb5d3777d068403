"""Failures of a run: memory that ran out, and a GPU that failed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress

import torch

from engines.loading.warm_models import WarmModels, free_memory
from engines.measuring.timing import failed_stage
from evprof.core.errors import GPU_LOST
from evprof.core.units import bytes_text

_CUDA_ERROR = "CUDA error: "


def is_lost_gpu(problem: BaseException) -> bool:
    return isinstance(problem, torch.AcceleratorError) and str(problem).startswith(_CUDA_ERROR)


def lost_sentence(problem: BaseException) -> str:
    reason = str(problem).partition("\n")[0].removeprefix(_CUDA_ERROR).rstrip(".")
    return f"{GPU_LOST} ({reason}), and its engine must start again before the next run."


_SAID = (
    "not enough memory",  # the CPU's allocator
    "can't allocate memory",
    "out of memory",  # CUDA itself: a kernel that is loaded, a graph that is made, pinned memory
    "_STATUS_ALLOC_FAILED",  # cuBLAS and cuDNN
)
_ASKED = re.compile(r"[Tt]ried to allocate (\d[\d.]*) (bytes|\w+)")
_FREE = re.compile(r"of which (\d[\d.]* \w+) is free")
_GPU = re.compile(r"\bGPU (\d+) has a total capacity")

_INSTEAD = {
    "load": "a shorter part of the sample",
    "preprocess": "fewer frames",
    "vision": "fewer frames",
    "prefill": "fewer frames or --prefill-chunk 512",
    "decode": "fewer new tokens or --cache fp8",
}

_ANYWHERE = "a smaller model or dtype, fewer frames or fewer new tokens"


def is_memory_failure(problem: BaseException) -> bool:
    if isinstance(problem, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(problem, RuntimeError) and any(words in str(problem) for words in _SAID)


def memory_sentence(problem: BaseException, *, doing: str, devices: Mapping[str, str], held_bytes: int) -> str:
    """Where memory ran out, how much was requested and free, and what to change. `doing` describes work outside stages,
    `devices` are the loaded models' by role, `held_bytes` their weights."""
    stage, text = failed_stage(problem), str(problem)
    place = ["this machine", *devices.values()][-1]
    if stage is not None:
        role, name = stage
        doing, place = f"in stage {name} of the {role}", devices.get(role, place)
    if (found := _GPU.search(text)) is not None:
        place = f"cuda:{found[1]}"
    amounts = [amount for amount in (_asked(text), _free(text)) if amount]
    said = f": {' and '.join(amounts)}" if amounts else ""
    weights = f", with {bytes_text(held_bytes)} of weights loaded" if held_bytes else ""
    instead = _ANYWHERE if stage is None or stage[1] not in _INSTEAD else f"{_INSTEAD[stage[1]]}, or a smaller model"
    return f"Memory ran out on {place} {doing}{said}{weights}; choose {instead}."


def give_back(warm: WarmModels) -> None:
    """Releases captured graphs, caches and tensors of a failed run. A failed GPU releases nothing."""
    with suppress(torch.AcceleratorError):
        warm.release_caches()
        free_memory()


def _asked(text: str) -> str | None:
    found = _ASKED.search(text)
    if found is None:
        return None
    size = bytes_text(int(found[1])) if found[2] == "bytes" else f"{found[1]} {found[2]}"
    return f"{size} were asked for"


def _free(text: str) -> str | None:
    found = _FREE.search(text)
    return None if found is None else f"{found[1]} were free"
