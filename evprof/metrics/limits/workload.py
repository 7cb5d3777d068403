"""What a stage of a run had to do at least, by the model's shape: operations and bytes, and how near the limit it was.

Bytes and operations can only err on the low side (see `roofline`), and so can the shares made of them. What a stage
that an imported file timed holds besides itself is counted too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from evprof.core.run_log import RunLog
from evprof.core.vocabulary.families import TextShape, VisionShape
from evprof.metrics.figures.decoding import decode_steps, frames_shown, input_length
from evprof.metrics.figures.partition import is_in_pieces
from evprof.metrics.figures.stages import stage_ms
from evprof.metrics.limits.sizes import ITEM_BYTES, DeviceCeiling, ModelSizes
from evprof.metrics.speculation.outcome import round_count


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


NEAR = 0.3
"""Below this share of what the machine can do, neither arithmetic nor memory is what takes the time."""

MEMORY, COMPUTE = "memory", "compute"


@dataclass(frozen=True)
class Work:
    """One pass of a stage: a decode step, a prefill, all frames through the tower."""

    stage: str
    flops: float
    bytes: float
    seconds: float

    @property
    def intensity(self) -> float:
        return self.flops / self.bytes

    @property
    def flops_s(self) -> float:
        return self.flops / self.seconds

    @property
    def bytes_s(self) -> float:
        return self.bytes / self.seconds

    def bound(self, ceiling: DeviceCeiling) -> str:
        return MEMORY if self.intensity < ceiling.balance else COMPUTE

    def attained(self, ceiling: DeviceCeiling) -> float:
        """The time it would take at the ceiling that binds it, as a share of the time it took."""
        return max(self.flops / ceiling.matmul_flops_s, self.bytes / ceiling.bandwidth_bytes_s) / self.seconds

    def mfu(self, ceiling: DeviceCeiling) -> float:
        """Operations a second as a share of the ceiling."""
        return self.flops_s / ceiling.matmul_flops_s

    def mbu(self, ceiling: DeviceCeiling) -> float:
        """Bytes a second as a share of the ceiling."""
        return self.bytes_s / ceiling.bandwidth_bytes_s


def prefill_work(run: RunLog, sizes: ModelSizes, frames: int | None = None) -> Work | None:
    """The prefill of the answering model; with the vision pass where its file's interval holds that once more."""
    positions, spent = input_length(run), stage_ms(run, "prefill")
    model = run.info.models.get(run.info.role)
    weights = sizes.streamed_bytes(model) if model else None
    if not positions or not spent or model is None or weights is None:
        return None
    flops = prefill_flops(sizes.text, positions)
    bytes_ = weights + positions * kv_bytes_per_position(sizes.text, model.kv_element_bytes)
    if holds_vision(run) and frames and sizes.vision is not None:
        flops += vision_flops(replace(sizes.vision, frames=frames))
    return Work("prefill", flops, bytes_, spent / 1000)


def holds_vision(run: RunLog) -> bool:
    """Whether what is told as prefill holds the vision pass once more, as imported files may."""
    span = run.stage("prefill", run.info.role) if is_in_pieces(run) else None
    return span is not None and "vision" in span.covers


def decode_work(run: RunLog, sizes: ModelSizes) -> Work | None:
    """One plain decode step at the mean context; None of a speculative run, whose steps are others."""
    positions, spent, steps = input_length(run), stage_ms(run, "decode"), decode_steps(run)
    model = run.info.models.get(run.info.role)
    weights = sizes.streamed_bytes(model) if model else None
    if round_count(run) or not positions or not spent or not steps or model is None or weights is None:
        return None
    context = mean_context(positions, steps)
    kv = context * kv_bytes_per_position(sizes.text, model.kv_element_bytes)
    return Work("decode", decode_flops(sizes.text, context), weights + kv, spent / steps / 1000)


def vision_work(run: RunLog, sizes: ModelSizes, frames: int | None) -> Work | None:
    spent, model = stage_ms(run, "vision"), run.info.models.get(run.info.role)
    if not spent or not frames or sizes.vision is None or model is None or model.dtype not in ITEM_BYTES:
        return None
    shape = replace(sizes.vision, frames=frames)
    item = ITEM_BYTES[model.dtype]
    pixels = frames * shape.channels * shape.patches * shape.patch**2
    return Work("vision", vision_flops(shape), item * (vision_weights(shape) + pixels), spent / 1000)


def vision_weights(shape: VisionShape) -> int:
    layer = 4 * shape.width**2 + 2 * shape.width * shape.intermediate
    embedding = shape.channels * shape.patch**2 * shape.width
    return shape.layers * layer + embedding + sum(rows * columns for rows, columns in shape.projections)


def linear_share(sizes: ModelSizes, positions: int) -> float:
    """The part of a prefill's operations that grows with the prompt, not with its square."""
    layers = 2 * sizes.text.layer_weights * positions + 2 * sizes.text.head_weights
    return layers / prefill_flops(sizes.text, positions)


def typical(works: list[Work]) -> Work | None:
    """The work of median size in the median of the times it took; None of none.

    Which work that is must not depend on times: measured again, the same sizes are to be told.
    """
    if not works:
        return None
    middle = sorted(works, key=lambda work: (work.flops, work.bytes))[(len(works) - 1) // 2]
    alike = [work.seconds for work in works if (work.flops, work.bytes) == (middle.flops, middle.bytes)]
    return replace(middle, seconds=median(alike))


def works_of(runs: Sequence[RunLog], sizes: ModelSizes) -> list[Work]:
    """The typical work of vision, prefill and decode over runs of one model; of those that are known."""
    each = [
        [vision_work(run, sizes, frames_shown(run)) for run in runs],
        [prefill_work(run, sizes, frames_shown(run)) for run in runs],
        [decode_work(run, sizes) for run in runs],
    ]
    middles = (typical([work for work in works if work is not None]) for works in each)
    return [middle for middle in middles if middle is not None]
