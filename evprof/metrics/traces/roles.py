"""What a slice of a trace is, by its category's name: Kineto's of today and of the versions before."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from evprof.core.rows.trace_columns import Codes

Mask = npt.NDArray[np.bool_]

(
    OTHER,
    OPERATOR,
    ANNOTATION,
    PYTHON,
    FUNCTION,
    RUNTIME,
    KERNEL,
    MEMCPY,
    MEMSET,
    STEP,
    COMMUNICATION,
    DATA_LOADER,
    DEVICE_ANNOTATION,
) = range(13)
"""Roles of slices. PYTHON are legacy scopes, FUNCTION Python's functions and modules."""

DEVICE_WORK = (KERNEL, MEMCPY, MEMSET)
HOST_SCOPES = (OPERATOR, PYTHON, STEP, DATA_LOADER)

_ROLES = {
    "cpu_op": OPERATOR,
    "operator": OPERATOR,
    "user_annotation": ANNOTATION,
    "gpu_user_annotation": DEVICE_ANNOTATION,
    "python": PYTHON,
    "python_function": FUNCTION,
    "runtime": RUNTIME,
    "cuda_runtime": RUNTIME,
    "cuda_driver": RUNTIME,
    "hip_runtime": RUNTIME,
    "xpu_runtime": RUNTIME,
    "xpu_driver": RUNTIME,
    "privateuse1_runtime": RUNTIME,
    "privateuse1_driver": RUNTIME,
    "mtia_runtime": RUNTIME,
    "kernel": KERNEL,
    "concurrent_kernel": KERNEL,
    "memcpy": MEMCPY,
    "gpu_memcpy": MEMCPY,
    "memset": MEMSET,
    "gpu_memset": MEMSET,
}

_COLLECTIVES = ("nccl:", "rccl:", "gloo:", "mpi:", "ucc:", "hccl:", "xccl:")
"""The libraries through which ranks exchange data, before the names of what they do."""

_WITHOUT_FIGURES = frozenset({"trace", "fwdbwd", "overhead", "cpu_instant_event", "async_npu", "user"})
"""Categories that stand in no table."""


def unknown_slices(texts: Sequence[str], categories: Codes) -> int:
    """How many slices have a category that is not known here, so that no figure includes them."""
    is_unknown = text_mask(texts, lambda text: text.lower() not in _ROLES and text.lower() not in _WITHOUT_FIGURES)
    return int(is_unknown[categories].sum()) if len(categories) else 0


STEP_PREFIX = "ProfilerStep#"


def slice_roles(texts: Sequence[str], categories: Codes, names: Codes) -> npt.NDArray[np.int8]:
    by_category = np.array([_ROLES.get(text.lower(), OTHER) for text in texts] or [OTHER], dtype=np.int8)
    roles = by_category[categories]
    is_step = text_mask(texts, lambda name: name.startswith(STEP_PREFIX) and name[len(STEP_PREFIX) :].isdecimal())
    is_loader = text_mask(texts, _is_loader)
    is_shared = text_mask(texts, lambda name: name.startswith(_COLLECTIVES))
    for mask, among, role in (
        (is_step, (OPERATOR, ANNOTATION), STEP),
        (is_loader, (OPERATOR, ANNOTATION), DATA_LOADER),
        (is_shared, (OPERATOR, ANNOTATION, PYTHON), COMMUNICATION),
    ):
        roles[mask[names] & np.isin(roles, among)] = role
    return roles


def text_mask(texts: Sequence[str], holds: Callable[[str], bool]) -> Mask:
    return np.fromiter((bool(holds(text)) for text in texts), dtype=bool, count=len(texts))


def _is_loader(name: str) -> bool:
    return (name.startswith("enumerate(DataLoader)#") and name.endswith(".__next__")) or name.startswith(
        "enumerate(DataPipe)#"
    )
