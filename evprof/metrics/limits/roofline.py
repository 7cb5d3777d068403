"""How near the machine's limit a model ran: bytes and operations by its shape, against measured or published peaks.

Arithmetic on shapes only; it knows neither tensors nor where times come from. Bytes are what has to cross the memory
bus at least once, operations what the result needs at least, so both shares can only err on the low side.
"""

from __future__ import annotations

from evprof.core.vocabulary.model_shapes import TextShape, VisionShape


def kv_bytes_per_position(shape: TextShape, element_bytes: float) -> float:
    """2 (keys, values) · layers · kv_heads · head_dim · bytes."""
    return 2 * shape.layers * shape.kv_heads * shape.head_dim * element_bytes


def weight_bytes_per_token(shape: TextShape, element_bytes: float) -> float:
    """Bytes of weights that one decode step reads at batch 1."""
    return shape.streamed_weights * element_bytes


def decode_flops(shape: TextShape, context: float) -> float:
    """Operations of one decode step: two per weight, four per head dimension and position seen."""
    return 2 * (shape.layer_weights + shape.head_weights) + _attention_flops(shape, context)


def prefill_flops(shape: TextShape, positions: int) -> float:
    """Operations of a prefill that wants the last position's logits only.

    Two per layer weight and position; the causal half of attention (a position sees itself and those before); the
    head once.
    """
    seen = positions * (positions + 1) / 2
    return 2 * shape.layer_weights * positions + _attention_flops(shape, seen) + 2 * shape.head_weights


def _attention_flops(shape: TextShape, seen: float) -> float:
    """Scores and weighted sums over `seen` pairs of positions: two multiply-adds per head dimension each."""
    return 4 * shape.layers * shape.heads * shape.head_dim * seen


def vision_flops(shape: VisionShape) -> float:
    """Operations from pixels to visual embeddings: patches, layers (four square matrices, two of the MLP, full
    attention), projections of the tokens that go through them."""
    tokens = shape.patches + 1
    embedding = 2 * shape.patches * shape.channels * shape.patch**2 * shape.width
    matrices = 2 * tokens * (4 * shape.width**2 + 2 * shape.width * shape.intermediate)
    layer = matrices + 4 * tokens**2 * shape.width
    behind = sum(2 * (shape.projected or shape.kept) * rows * columns for rows, columns in shape.projections)
    return shape.frames * (embedding + shape.layers * layer + behind)


def bandwidth_share(bytes_per_token: float, token_s: float, bandwidth_bytes_s: float) -> float:
    """MBU: bytes a token needs / the time it took / the bandwidth there is (definition: Databricks, 2023)."""
    return bytes_per_token / token_s / bandwidth_bytes_s


def compute_share(flops: float, duration_s: float, peak_flops_s: float) -> float:
    """MFU: operations needed / the time they took / the operations a second there are."""
    return flops / duration_s / peak_flops_s


def mean_context(prompt: int, steps: int) -> float:
    """Positions a decode step sees on average, its own token among them, over `steps` steps after `prompt`."""
    return prompt + (steps + 1) / 2
