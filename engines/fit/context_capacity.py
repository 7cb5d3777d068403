"""How long a run may be on a device: the most positions, and the most frames, that fit beside a model's weights."""

from __future__ import annotations

from engines.families.family import engine_family
from engines.fit.requirements import MemoryNeed, ModelShape, frame_count, picture_count
from engines.loading.shapes import text_shape, vision_shape
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.core.vocabulary.switches import LOSSY_CACHES
from evprof.metrics.costs.capacity_plan import KINDS, MemoryPlan, PlannedModel, plan
from evprof.metrics.limits.memory_need import CacheShape
from evprof.metrics.limits.sizes import ITEM_BYTES


def context_capacity(need: MemoryNeed, shape: ModelShape, settings: GenerationSettings, free_bytes: int) -> MemoryPlan:
    """What a model alone on its device holds, with the text and the answer that `need` is for."""
    config, item = shape.config, ITEM_BYTES[need.dtype]
    text, frames = text_shape(config.text), frame_count(config, settings)
    family = engine_family(config.family)
    is_grid = picture_count(config, settings) != frames
    one, two = (family.visual_counts(config, 1 if is_grid else count, settings).total for count in (1, 2))
    model = PlannedModel(
        name=need.name,
        dtype=need.dtype,
        weight_bytes=need.weight_bytes,
        cache=CacheShape(text.layers, text.kv_heads, text.head_dim, item),
        shape=text,
        vision=vision_shape(config),
        text=need.positions.text,
        frame_positions=two - one,
        shared_positions=2 * one - two,
        frames=frames,
        answer=need.positions.answer,
        context_limit=config.text.max_position_embeddings,
        workspace_bytes=need.workspace_bytes + need.alternatives_bytes,
        unpacked_bytes=max(map(_product, shape.matrices)) * item if need.quantization is not None else 0,
        own_cache="dynamic" if need.cache == "dynamic" else "static",
    )
    return plan(model, free_bytes, need.cache if need.cache in LOSSY_CACHES else KINDS[0])


def _product(sizes: tuple[int, int]) -> int:
    return sizes[0] * sizes[1]
