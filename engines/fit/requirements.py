"""The memory a model needs in a run, computed from configuration and settings, and what then fits beside it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

from engines.checkpoints.config import ModelConfig
from engines.decoder.bucket_pass import STRIDE
from engines.families.networks import build_empty, engine_family
from engines.hardware.device import Machine, dtype_name
from engines.loading.shapes import text_shape, vision_shape
from engines.loading.weights import find_checkpoint
from evprof.core.vocabulary.families import FAMILIES
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.switches import LOSSY_CACHES, Switches
from evprof.metrics.limits.memory_need import (
    CUDA_WORKSPACE_BYTES,
    CacheShape,
    PlannedModel,
    Positions,
    alternatives_rows,
    prefill_bytes,
    vision_bytes,
    weight_bytes,
)
from evprof.metrics.limits.sizes import ITEM_BYTES

TEMPLATE_POSITIONS = 64
"""Positions granted to a template's own words: the published ones take 20 to 60."""

SMALL_VOCABULARY, SPELLED_POSITIONS = 4096, 112
"""A vocabulary below this size spells words in pieces: EventGPT's own take 103 positions in the bundled one."""

QUESTION_POSITIONS = 16
"""Positions of a question nobody has asked yet."""


@dataclass(frozen=True)
class ModelShape:
    name: str
    config: ModelConfig
    parameters: int
    matrices: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes of one model on `device` in a run. `activation_bytes` includes `workspace_bytes`, which does not grow with
    the batch. `alternatives_bytes` are kept logits; batches keep none. `loading_bytes` exist beside the weights while
    they are read; `host_bytes` are unpacked weights on the CPU before they are quantized for a GPU."""

    name: str
    role: str
    device: str
    dtype: str
    weight_bytes: int
    kv_bytes: int
    activation_bytes: int
    workspace_bytes: int = 0
    alternatives_bytes: int = 0
    loading_bytes: int = 0
    host_bytes: int = 0
    quantization: str | None = None
    cache: str = "auto"
    positions: Positions = field(default_factory=lambda: Positions(0, 0, 0))

    @property
    def total_bytes(self) -> int:
        """The most there is at once: while loading, or in a run."""
        return self.weight_bytes + max(
            self.kv_bytes + self.activation_bytes + self.alternatives_bytes, self.loading_bytes
        )

    def loaded(self) -> MemoryNeed:
        """The same for a model whose weights are on the device already, and so no longer part of what is free."""
        return replace(self, weight_bytes=0, loading_bytes=0, host_bytes=0)


def model_shape(choice: ModelChoice) -> ModelShape:
    """A model's sizes, from a build without memory. Raises UserError when it cannot be found."""
    checkpoint = find_checkpoint(choice.name, choice.clip)
    parameters = sum(parameter.numel() for parameter in build_empty(checkpoint.config).parameters())
    return ModelShape(checkpoint.name, checkpoint.config, parameters, projection_shapes(checkpoint.config))


def projection_shapes(config: ModelConfig) -> tuple[tuple[int, int], ...]:
    """(rows, columns) of the language model's fused projections, four a layer; only these are quantized."""
    text = text_shape(config.text)
    attended = text.heads * text.head_dim
    layer = (
        (attended + 2 * text.kv_heads * text.head_dim, text.hidden),
        (text.hidden, attended),
        (2 * text.intermediate, text.hidden),
        (text.hidden, text.intermediate),
    )
    return layer * text.layers


def memory_need(
    choice: ModelChoice,
    role: str,
    settings: GenerationSettings,
    *,
    machine: Machine | None = None,
    shape: ModelShape | None = None,
    question: int = QUESTION_POSITIONS,
) -> MemoryNeed:
    """The need of a model from its configuration; `question` is its positions. weights = parameters · bytes, with
    quantized projections; KV = 2 · layers · kv_heads · head_dim · positions · bytes; activations = the larger of vision
    pass and prefill, both if the vision pass is captured. Raises UserError for an unknown model or device."""
    machine = machine or Machine()
    shape = shape or model_shape(choice)
    device = machine.device(choice.device)
    dtype = machine.dtype(choice.dtype, device)
    config, size = shape.config, dtype.itemsize
    positions = Positions(
        visual_positions(config, settings),
        (TEMPLATE_POSITIONS if config.text.vocab_size >= SMALL_VOCABULARY else SPELLED_POSITIONS) + question,
        settings.max_new_tokens + (settings.speculation.nodes or settings.speculation.gamma) + 1,
    )
    is_cuda = device.type == "cuda"
    if is_cuda and _is_captured(settings.switches):
        positions = replace(positions, spare=-positions.total % STRIDE)
    weights = stored_weights(shape, choice.quantization, size)
    unpacked = shape.parameters * size if choice.quantization is not None else 0
    workspace = CUDA_WORKSPACE_BYTES if is_cuda else 0
    cache = settings.switches.cache
    text = text_shape(config.text)
    kept = CacheShape(text.layers, text.kv_heads, text.head_dim, size)
    prefill = prefill_bytes(
        text,
        positions.prompt,
        size,
        chunk=settings.switches.prefill_chunk,
        has_scores=settings.switches.attention == "eager",
    ) + kept.fresh_bytes(positions.total, cache)
    if choice.quantization is not None:
        # One matrix at a time comes back to the model's dtype.
        prefill += max(map(prod, shape.matrices)) * size
    seen = vision_bytes(replace(vision_shape(config), frames=picture_count(config, settings)), text.hidden, size)
    if is_cuda and settings.switches.step != "eager":
        # The vision tower's graph keeps its memory from run to run.
        workspace += seen
    return MemoryNeed(
        name=shape.name,
        role=role,
        device=str(device),
        dtype=dtype_name(dtype),
        weight_bytes=weights,
        kv_bytes=kept.kept_bytes(positions.total, cache),
        activation_bytes=max(seen, prefill) + workspace,
        workspace_bytes=workspace,
        alternatives_bytes=_alternatives_bytes(config, settings, size),
        # On a CPU, layers are packed one by one in place of what was read.
        loading_bytes=0 if is_cuda else max(unpacked - weights, 0),
        host_bytes=unpacked if is_cuda else 0,
        quantization=choice.quantization,
        cache=cache,
        positions=positions,
    )


def _alternatives_bytes(config: ModelConfig, settings: GenerationSettings, size: int) -> int:
    """Of the answering model's logits as of a draft's: either may fill its share."""
    if not settings.alternatives:
        return 0
    vocabulary = config.text.vocab_size
    return alternatives_rows(settings.max_new_tokens, vocabulary, size) * vocabulary * size


def stored_weights(shape: ModelShape, quantization: str | None, itemsize: int) -> int:
    inside = sum(map(prod, shape.matrices))
    packed = sum(weight_bytes(quantization, rows, columns, itemsize) for rows, columns in shape.matrices)
    return (shape.parameters - inside) * itemsize + packed


def frame_count(config: ModelConfig, settings: GenerationSettings) -> int:
    family = FAMILIES[config.family]
    asked: int | None = getattr(settings, family.frames_setting)
    return asked or family.most_frames


def picture_count(config: ModelConfig, settings: GenerationSettings) -> int:
    is_grid = FAMILIES[config.family].takes_images and settings.input.image_layout == "grid"
    return 1 if is_grid else frame_count(config, settings)


def visual_positions(config: ModelConfig, settings: GenerationSettings) -> int:
    return engine_family(config.family).visual_counts(config, picture_count(config, settings), settings).total


def _is_captured(switches: Switches) -> bool:
    return switches.step != "eager" and switches.early_exit is None and switches.cache in ("auto", "static")


@dataclass(frozen=True)
class BatchCapacity:
    """Samples in one batch: `naive` = free / KV; `real` = (free - weights - workspace) / (KV + activations)."""

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


def planned(need: MemoryNeed, shape: ModelShape, settings: GenerationSettings) -> PlannedModel:
    """A model alone on its device, with the text and the answer that `need` is for."""
    config, item = shape.config, ITEM_BYTES[need.dtype]
    text, frames = text_shape(config.text), frame_count(config, settings)
    family = engine_family(config.family)
    is_grid = picture_count(config, settings) != frames
    one, two = (family.visual_counts(config, 1 if is_grid else count, settings).total for count in (1, 2))
    return PlannedModel(
        weight_bytes=need.weight_bytes,
        cache=CacheShape(text.layers, text.kv_heads, text.head_dim, item),
        kind=need.cache if need.cache in ("dynamic", *LOSSY_CACHES) else "static",
        shape=text,
        vision=vision_shape(config),
        text=need.positions.text,
        frame_positions=two - one,
        shared_positions=2 * one - two,
        frames=frames,
        answer=need.positions.answer,
        workspace_bytes=need.workspace_bytes + need.alternatives_bytes,
        unpacked_bytes=max(map(prod, shape.matrices)) * item if need.quantization is not None else 0,
    )
