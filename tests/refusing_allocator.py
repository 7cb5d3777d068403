"""A stand-in for a full device: every new tensor is refused."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

FULL = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 139.72 GiB of which 1.10 GiB is "
    "free. Including non-PyTorch memory, this process has 138.60 GiB memory in use."
)


class NoMemory(TorchDispatchMode):
    """Refuses new tensors with PyTorch's error; views and what is written in place go on."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        if _storages(made) - _storages((args, kwargs)):
            raise torch.OutOfMemoryError(FULL)
        return made


def _storages(values: Any) -> set[int]:
    tensors = (value for value in tree_leaves(values) if isinstance(value, torch.Tensor))
    return {tensor.untyped_storage()._cdata for tensor in tensors}
