"""What a memory holds: the most positions and frames of a model beside its weights, by arithmetic on sizes alone.

The same sums are asked before every load (`evprof.metrics.limits.memory_need`). What they leave out is told with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from evprof.core.run_log import RunLog
from evprof.core.vocabulary.families import FAMILIES
from evprof.core.vocabulary.model_shapes import TextShape, VisionShape
from evprof.core.vocabulary.switches import LOSSY_CACHES
from evprof.metrics.costs.cache_map import cache_shape
from evprof.metrics.figures.decoding import frames_shown
from evprof.metrics.limits.memory_need import CUDA_WORKSPACE_BYTES, CacheShape, prefill_bytes, vision_bytes
from evprof.metrics.limits.sizes import PUBLISHED_VISION, TEXT_SHAPES, ModelSizes
from evprof.metrics.limits.workload import vision_weights

MOST_POSITIONS = 1 << 24
"""Beyond any model: so many positions are not asked about."""

KINDS = ("as computed", *LOSSY_CACHES)
"""What a cache can keep of keys and values: all that was computed, or less."""

_PUBLISHED_DTYPE, _PUBLISHED_BYTES, _PUBLISHED_ANSWER = "bfloat16", 2, 128


@dataclass(frozen=True)
class PlannedModel:
    """A model to be fitted, with a run's prompt: `text` positions of words, `frame_positions` for every frame,
    `shared_positions` for all together, and an answer of `answer` tokens.

    `shape` and `vision` (of one frame) are None where a session does not tell them: activations are then left out.
    `unpacked_bytes` is one matrix of quantized weights, which comes back to be multiplied with. `own_cache`
    is the kind of cache that keeps all that was computed. `is_published`: no run of it is at hand.
    """

    name: str
    dtype: str
    weight_bytes: int
    cache: CacheShape
    shape: TextShape | None
    vision: VisionShape | None
    text: int
    frame_positions: int
    shared_positions: int
    frames: int
    answer: int
    context_limit: int
    workspace_bytes: int = 0
    unpacked_bytes: int = 0
    own_cache: str = "static"
    is_published: bool = False

    def positions(self, frames: int) -> int:
        """The cache's positions at the end of an answer to so many frames."""
        return self.text + self.shared_positions + frames * self.frame_positions + self.answer

    @property
    def frames_in_context(self) -> int | None:
        """The most frames whose run stays within the positions the model was trained for; None where frames add no
        positions or the limit is not known."""
        if not self.frame_positions or self.context_limit <= 0:
            return None
        return max(0, (self.context_limit - self.positions(0)) // self.frame_positions)

    def needed_bytes(self, positions: int, frames: int, kind: str) -> int:
        """The most there is at once: weights, cache, and the larger moment of vision and prefill."""
        kept = self.own_cache if kind == KINDS[0] else kind
        cache = self.cache.kept_bytes(positions, kept)
        prefill = vision = 0
        if self.shape is not None:
            prompt = max(0, positions - self.answer)
            prefill = prefill_bytes(self.shape, prompt, self.cache.element_bytes) + self.unpacked_bytes
            prefill += self.cache.fresh_bytes(positions, kept)
            if self.vision is not None:
                shown = replace(self.vision, frames=frames)
                vision = vision_bytes(shown, self.shape.hidden, self.cache.element_bytes)
        return self.weight_bytes + cache + max(prefill, vision) + self.workspace_bytes


@dataclass(frozen=True)
class MemoryPlan:
    """What one model does with a memory; `needed_bytes` is for its own frames. 0 positions: not even its weights fit.

    `most_frames` is None of a model whose frames take no positions of their own.
    """

    model: PlannedModel
    memory_bytes: int
    kind: str
    needed_bytes: int
    most_positions: int
    most_frames: int | None

    @property
    def fits(self) -> bool:
        return self.needed_bytes <= self.memory_bytes


def plan(model: PlannedModel, memory_bytes: int, kind: str = KINDS[0]) -> MemoryPlan:
    """The most that fits: positions with the model's own frames, and frames with its own text and answer."""

    def holds_positions(count: int) -> bool:
        return model.needed_bytes(count, model.frames, kind) <= memory_bytes

    def holds_frames(count: int) -> bool:
        return model.needed_bytes(model.positions(count), count, kind) <= memory_bytes

    return MemoryPlan(
        model,
        memory_bytes,
        kind,
        model.needed_bytes(model.positions(model.frames), model.frames, kind),
        _most(holds_positions, MOST_POSITIONS),
        _most(holds_frames, MOST_POSITIONS // model.frame_positions) if model.frame_positions else None,
    )


def _most(holds: Callable[[int], bool], limit: int) -> int:
    """The largest count that holds, where every smaller one does too; 0 when not even one does."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def together_bytes(plans: Iterable[MemoryPlan]) -> int:
    """What models take that are loaded at once, each with its own run."""
    return sum(each.needed_bytes for each in plans)


def planned_model(run: RunLog, role: str, sizes: ModelSizes | None) -> PlannedModel | None:
    """A model of a run with the prompt it was given; None where the run does not tell weights and lengths."""
    model, lengths = run.info.models.get(role), run.info.lengths.get(role)
    if model is None or lengths is None or model.weight_bytes is None:
        return None
    own = max(lengths.per_frame, default=0)
    frames = len(lengths.per_frame) or (frames_shown(run) if role == run.info.role else 0) or 0
    shape = sizes.text if sizes is not None else None
    unpacked = 0
    if shape is not None and model.quantization is not None:
        unpacked = 2 * shape.intermediate * shape.hidden * model.kv_element_bytes
    return PlannedModel(
        name=model.name,
        dtype=f"{model.dtype}, {model.quantization}" if model.quantization else model.dtype,
        weight_bytes=model.weight_bytes,
        cache=cache_shape(model),
        shape=shape,
        vision=sizes.vision if sizes is not None else None,
        text=lengths.system + lengths.text,
        frame_positions=own,
        shared_positions=lengths.visual - own * len(lengths.per_frame),
        frames=frames,
        answer=run.info.settings.max_new_tokens,
        context_limit=model.context_limit,
        workspace_bytes=CUDA_WORKSPACE_BYTES if model.device.startswith("cuda") else 0,
        unpacked_bytes=unpacked,
        own_cache="dynamic" if model.cache == "dynamic" else "static",
    )


def published_models() -> list[PlannedModel]:
    """The families' published models, in bfloat16 on a GPU, each with its family's frames and a short question."""
    found = []
    for family in FAMILIES.values():
        vision = PUBLISHED_VISION[family.key]
        text = TEXT_SHAPES[family.size]
        weights = text.parameters + vision_weights(vision)
        cache = CacheShape(text.layers, text.kv_heads, text.head_dim, _PUBLISHED_BYTES)
        pools = family.pools_frames
        found.append(
            PlannedModel(
                name=f"{family.title} {family.size}",
                dtype=_PUBLISHED_DTYPE,
                weight_bytes=weights * _PUBLISHED_BYTES,
                cache=cache,
                shape=text,
                vision=vision,
                text=family.text_positions,
                frame_positions=1 if pools else vision.kept,
                shared_positions=vision.kept if pools else 0,
                frames=family.frames,
                answer=_PUBLISHED_ANSWER,
                context_limit=family.context,
                workspace_bytes=CUDA_WORKSPACE_BYTES,
                is_published=True,
            )
        )
    return found


def assumptions(models: Sequence[PlannedModel]) -> list[str]:
    said = ["One sample at a time; all of the memory is free; prompts as in the run, answers as long as it allowed."]
    if any(model.shape is None for model in models):
        named = sorted({model.name for model in models if model.shape is None})
        said.append(f"Activations of {', '.join(named)} are left out: this session does not tell its sizes.")
    if any(model.workspace_bytes for model in models):
        said.append("On a GPU, 512 MiB go to CUDA's libraries and to rounding.")
    if any(model.is_published for model in models):
        said.append("Published models by their shapes in bfloat16, norms and biases of the tower left out.")
    return said
