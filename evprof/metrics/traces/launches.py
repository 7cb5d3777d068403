"""What ran on devices and who launched it: a kernel names a call of the runtime, and that names an operator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from evprof.core.rows.blocks import Ints, distinct
from evprof.core.rows.trace_columns import NONE, TraceColumns
from evprof.core.units import count_text, ms_text
from evprof.metrics.traces.roles import DEVICE_WORK, KERNEL, RUNTIME, Mask, slice_roles, text_mask
from evprof.metrics.traces.tree import ScopeTree, summed

_TENSOR_CORES = (
    *("h884", "s884", "h1688", "s1688", "hmma", "i8816", "16816", "c1688"),
    *("dgrad_1x1_stride_2x2", "first_layer_wgrad_kernel", "conv1x1", "conv2d_c1_k1", "direct_group"),
    *("xmma_implicit_gemm", "xmma_sparse_conv", "xmma_warp_specialized_implicit_gemm", "xmma_gemm", "xmma_sparse_gemm"),
)
"""Parts of the names of kernels that use tensor cores, as torch-tb-profiler knows them."""

_NEWER_TENSOR_CORES = ("wgmma", "warpgroup", "flash_fwd", "flash_bwd", "nvjet", "tensorop", "_bf16gemm_")
"""Those of Hopper's and Blackwell's libraries, of FlashAttention and CUTLASS, which came later."""

_OTHER_VENDORS = ("amd", "radeon", "instinct", "gfx9", "intel", "ascend", "mtia")
"""Parts of the names of devices whose kernels these names say nothing of."""


@dataclass(frozen=True)
class Launches:
    """A trace's device work, one row each: `rows` and `calls` (of the runtime) are slices, `scopes` places in the tree.

    `calls` and `scopes` are NONE where they are unknown. `host_ns` is what the runtime's calls took, for each scope.
    `knows_tensor_cores`: whether the names of kernels say what uses tensor cores; `uses_tensor_cores` is False then.
    """

    rows: Ints
    calls: Ints
    scopes: Ints
    durations: Ints
    is_kernel: Mask
    uses_tensor_cores: Mask
    knows_tensor_cores: bool
    host_ns: Ints

    def per_scope(self, scopes: int, chosen: Mask | None = None) -> Ints:
        """The time of device work that each of so many scopes launched itself, ns."""
        mine = self.scopes >= 0 if chosen is None else (self.scopes >= 0) & chosen
        return summed(self.scopes[mine], self.durations[mine], scopes)


def launches(trace: TraceColumns, tree: ScopeTree) -> Launches:
    slices = trace.slices
    roles = slice_roles(trace.texts, slices.categories, slices.names)
    calls = np.flatnonzero(roles == RUNTIME)
    rows = np.flatnonzero(np.isin(roles, DEVICE_WORK))
    scope_of_call = joined(slices.external_ids[calls], slices.external_ids[tree.rows])
    scope_of_call = np.where(scope_of_call >= 0, tree.keepers[scope_of_call], NONE) if len(tree) else scope_of_call
    known = scope_of_call >= 0
    host_ns = summed(scope_of_call[known], slices.durations[calls[known]], len(tree))
    call = joined(slices.correlations[rows], slices.correlations[calls])
    return Launches(
        rows,
        np.where(call >= 0, calls[call], NONE) if len(calls) else np.full(len(rows), NONE),
        np.where(call >= 0, scope_of_call[call], NONE) if len(calls) else np.full(len(rows), NONE),
        slices.durations[rows],
        roles[rows] == KERNEL,
        tensor_core_names(trace)[slices.names[rows]] if len(rows) else np.zeros(0, dtype=bool),
        not any(vendor in device.name.lower() for device in trace.head.devices for vendor in _OTHER_VENDORS),
        host_ns,
    )


def tensor_core_names(trace: TraceColumns) -> Mask:
    parts = (*_TENSOR_CORES, *_NEWER_TENSOR_CORES)
    return text_mask(trace.texts, lambda name: any(part in name for part in parts))


def joined(keys: Ints, among: Ints) -> Ints:
    """For each key the first place where it stands among others; NONE for NONE and for what stands nowhere."""
    known = distinct(among)
    if not len(known.values):
        return np.full(len(keys), NONE)
    at = np.minimum(np.searchsorted(known.values, keys), len(known.values) - 1)
    return np.where((known.values[at] == keys) & (keys != NONE), known.firsts[at], NONE)


GRAPH_CALLS = ("cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch")


def graph_problems(trace: TraceColumns, launched: Launches) -> Iterator[str]:
    """Sentences about kernels that no operator can be named for, or that were not recorded."""
    roles = slice_roles(trace.texts, trace.slices.categories, trace.slices.names)
    is_graph = text_mask(trace.texts, lambda name: name.startswith(GRAPH_CALLS))
    calls = np.flatnonzero((roles == RUNTIME) & is_graph[trace.slices.names])
    if not len(calls):
        return
    of_graph = joined(launched.calls, calls) >= 0
    empty = len(calls) - len(set(launched.calls[of_graph].tolist()))
    if empty:
        yield (
            f"{count_text(empty, 'CUDA graph')} of {len(calls):,} were replayed without a kernel in the trace: device "
            "times leave out what they did. Record with --step eager to see it."
        )
    if of_graph.any():
        count = count_text(int(of_graph.sum()), "kernel")
        took = ms_text(int(launched.durations[of_graph].sum()) / 1e6)
        yield (
            f"{count} ({took}) ran in replayed CUDA graphs, where no operator calls them: they count in the overview "
            "and among kernels, not under the operators that they stand for. Record with --step eager to see whose "
            "they are."
        )
