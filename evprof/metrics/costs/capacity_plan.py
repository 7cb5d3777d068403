"""What a memory holds: the most positions and frames of a model beside its weights, by arithmetic on sizes alone.

The same sums are asked before every load (`evprof.metrics.limits.memory_need`). What they leave out is told with them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from evprof.core.vocabulary.model_shapes import TextShape, VisionShape
from evprof.core.vocabulary.switches import LOSSY_CACHES
from evprof.metrics.limits.memory_need import CacheShape, prefill_bytes, vision_bytes

MOST_POSITIONS = 1 << 24
"""Beyond any model: so many positions are not asked about."""

KINDS = ("as computed", *LOSSY_CACHES)
"""What a cache can keep of keys and values: all that was computed, or less."""


@dataclass(frozen=True)
class PlannedModel:
    """A model to be fitted, with a run's prompt: `text` positions of words, `frame_positions` for every frame,
    `shared_positions` for all together, and an answer of `answer` tokens.

    `shape` and `vision` (of one frame) are None where a session does not tell them: activations are then left out.
    `unpacked_bytes` is one matrix of quantized weights, which comes back to be multiplied with. `own_cache`
    is the kind of cache that keeps all that was computed.
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

    def positions(self, frames: int) -> int:
        """The cache's positions at the end of an answer to so many frames."""
        return self.text + self.shared_positions + frames * self.frame_positions + self.answer

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
