"""How many samples a device holds at once: the figure by KV cache alone, and the one with weights and activations.

"75 samples in 24 GB" is memory divided by one sample's KV cache. A model's weights are there too, and a batch's
activations grow with it; both counts are told so that the difference is seen.
"""

from __future__ import annotations

from dataclasses import dataclass

from engines.fit.requirements import MemoryNeed


@dataclass(frozen=True)
class BatchCapacity:
    """Samples in one batch: `naive` = free / KV per sample; `real` = (free - weights - workspace) / (KV + activations
    per sample). 0 when not even one fits."""

    naive: int
    real: int
    kv_bytes_per_sample: int
    activation_bytes_per_sample: int


def batch_capacity(need: MemoryNeed, free_bytes: int) -> BatchCapacity:
    """What a model alone on its device holds; every sample as long as the one `need` is for."""
    activations = need.activation_bytes - need.workspace_bytes
    # Batches are not captured, so that nothing is set aside beyond what a sample fills.
    positions = need.positions
    cache = need.kv_bytes * (positions.total - positions.spare) // (positions.total or 1) or need.kv_bytes
    left = free_bytes - need.weight_bytes - need.workspace_bytes
    return BatchCapacity(
        naive=free_bytes // cache,
        real=max(left // (cache + activations), 0),
        kv_bytes_per_sample=cache,
        activation_bytes_per_sample=activations,
    )
