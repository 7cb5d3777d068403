"""What a run takes beside weights, from a model's sizes: its KV cache, and the activations of its largest moments.

Caches are exact up to padding. `engines.fit.requirements` calls it before every load.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from evprof.core.vocabulary.families import TextShape, VisionShape
from evprof.core.vocabulary.switches import FORGETFUL_CACHES, LOSSY_CACHES

GROUP = 64
"""Weights (or cached numbers) that share one scale in nf4 and in the hqq caches."""

RESIDUAL = 2 * GROUP
"""The latest positions of an hqq cache that wait as they came."""

_ROW_SCALE_BYTES = 4
"""A row's scale in int8 and fp8 is float32."""

_INT4_GROUP, _INT4_SCALE_BYTES = 128, 2
"""int4's scales are bfloat16, whatever the model computes in."""

_NF4_TABLE_BYTES = 16 * 4
"""NF4's sixteen levels, float32, once per matrix."""


def weight_bytes(kind: str | None, rows: int, columns: int, itemsize: int) -> int:
    """Bytes of one Linear's weight [rows, columns] whose dtype takes `itemsize` bytes; None: not quantized.

    int8: one byte each up to 16 columns, and a float32 scale per row. int4: half a byte and a scale per group of 128
    columns. nf4: half a byte and a float32 maximum per GROUP of the flattened matrix. fp8: one byte each and a float32
    scale per row.
    """
    match kind:
        case None:
            return rows * columns * itemsize
        case "int8":
            return rows * (-(-columns // 16) * 16 + _ROW_SCALE_BYTES)
        case "fp8":
            return rows * (columns + _ROW_SCALE_BYTES)
        case "int4":
            return rows * -(-columns // _INT4_GROUP) * (_INT4_GROUP // 2 + _INT4_SCALE_BYTES)
        case "nf4":
            count = rows * columns
            return -(-count // 2) + -(-count // GROUP) * 4 + _NF4_TABLE_BYTES
        case _:
            raise ValueError(f"unknown quantization: {kind}")


def cached_bytes(kind: str, elements: int, itemsize: int) -> float:
    """Bytes that `elements` cached keys or values take; `kind` is a kind of cache, `itemsize` the model's dtype.

    dynamic, static: as they come. fp8: a byte each. hqq8, hqq4: a byte or half of one, and per GROUP a scale and a zero
    point in the model's dtype. Scales that fp8 keeps per layer are not counted: they do not grow with the length.
    """
    match kind:
        case "auto" | "dynamic" | "static":
            return float(elements * itemsize)
        case "fp8":
            return float(elements)
        case "hqq8":
            return elements * (1 + 2 * itemsize / GROUP)
        case "hqq4":
            return elements * (0.5 + 2 * itemsize / GROUP)
        case _:
            raise ValueError(f"unknown kind of cache: {kind}")


CUDA_WORKSPACE_BYTES = 512 << 20
"""What CUDA's libraries and the allocator's rounding take besides tensors."""

ALTERNATIVES_BYTES = 64 << 20
"""Logits of which the likeliest tokens are worked out later; held at most, for target and draft each."""

IN_PLACE = ("auto", "static")
"""KV caches that are written in place: no step makes a layer of them anew."""


def alternatives_rows(
    new_tokens: int, vocabulary: int, element_bytes: int, most_bytes: int = ALTERNATIVES_BYTES
) -> int:
    """Rows of logits that a run sets aside for the alternatives to so many tokens."""
    return max(1, min(new_tokens + 2, most_bytes // (vocabulary * element_bytes)))


@dataclass(frozen=True)
class Positions:
    """Positions of a run's cache by what fills them; `answer` counts a block of drafts beyond the new tokens.

    `spare` are set aside and never filled: a captured step's cache ends where a bucket ends.
    """

    visual: int
    text: int
    answer: int
    spare: int = 0

    @property
    def prompt(self) -> int:
        return self.visual + self.text

    @property
    def total(self) -> int:
        return self.prompt + self.answer + self.spare


@dataclass(frozen=True)
class CacheShape:
    """What a cache's bytes follow from: layers, heads of keys and values, their width, bytes of an element as the model
    computes it."""

    layers: int
    kv_heads: int
    head_dim: int
    element_bytes: int

    @property
    def layer_elements(self) -> int:
        return 2 * self.kv_heads * self.head_dim

    def kept_bytes(self, positions: int, kind: str) -> int:
        """All layers' keys and values of so many positions, as a cache of that kind keeps them; hqq's latest positions
        wait as they came."""
        waiting = min(RESIDUAL, positions) if kind in FORGETFUL_CACHES else 0
        each = self.layer_elements
        packed = cached_bytes(kind, each * (positions - waiting), self.element_bytes)
        return round(self.layers * (packed + each * waiting * self.element_bytes))

    def fresh_bytes(self, positions: int, kind: str) -> int:
        """One layer as every step makes it anew or unpacks it; nothing where it is written in place."""
        if kind in IN_PLACE:
            return 0
        elements = self.layer_elements * positions
        # Half of it, the keys or the values, is float32 on the way.
        return elements * self.element_bytes + (elements // 2 * 4 if kind in LOSSY_CACHES else 0)


def vision_bytes(shape: VisionShape, hidden: int, element_bytes: int) -> int:
    """All of a shape's frames at once, in a layer of the tower (five of its width, two of its MLP's) or in the
    projector to `hidden`."""
    tokens = shape.frames * (shape.patches + 1)
    return tokens * max(5 * shape.width + 2 * shape.intermediate, shape.width + 4 * hidden) * element_bytes


def prefill_bytes(
    shape: TextShape, prompt: int, element_bytes: int, *, chunk: int | None = None, has_scores: bool = False
) -> int:
    """The prompt's embeddings, and one layer over all of it or a chunk: its attention, its MLP, or a row of logits.

    Attention holds the residual before and after, queries, keys and values, and what rotating them takes; the MLP all
    of these once, and gate, up, the activated gate and the product. `has_scores`: attention writes its scores down.
    """
    attended, kept = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    at_once = min(chunk, prompt) if chunk else prompt
    projected = 2 * shape.hidden + attended + 2 * kept
    rotated = attended + kept
    attention = at_once * (projected + 3 * rotated) * element_bytes
    if has_scores:
        scores = shape.heads * at_once * prompt * max(2 * element_bytes, element_bytes + 4)
        attention = max(attention, at_once * (projected + rotated) * element_bytes + scores + at_once * prompt)
    mlp = at_once * (projected + rotated + attended + 4 * shape.intermediate) * element_bytes
    return prompt * shape.hidden * element_bytes + max(attention, mlp, shape.vocabulary * (element_bytes + 4))


MOST_POSITIONS = 1 << 24
"""Beyond any model: so many positions are not asked about."""


@dataclass(frozen=True)
class PlannedModel:
    """A model to be fitted, with a run's prompt: `text` positions of words, `frame_positions` for every frame,
    `shared_positions` for all together, and an answer of `answer` tokens.

    `kind` is what its cache keeps; `vision` is of one frame; `unpacked_bytes` is one matrix of quantized weights, which
    comes back to be multiplied with.
    """

    weight_bytes: int
    cache: CacheShape
    kind: str
    shape: TextShape
    vision: VisionShape
    text: int
    frame_positions: int
    shared_positions: int
    frames: int
    answer: int
    workspace_bytes: int = 0
    unpacked_bytes: int = 0

    def positions(self, frames: int) -> int:
        """The cache's positions at the end of an answer to so many frames."""
        return self.text + self.shared_positions + frames * self.frame_positions + self.answer

    def needed_bytes(self, positions: int, frames: int) -> int:
        """The most there is at once: weights, cache, and the larger moment of vision and prefill."""
        item, prompt = self.cache.element_bytes, max(0, positions - self.answer)
        prefill = prefill_bytes(self.shape, prompt, item) + self.unpacked_bytes
        prefill += self.cache.fresh_bytes(positions, self.kind)
        vision = vision_bytes(replace(self.vision, frames=frames), self.shape.hidden, item)
        cache = self.cache.kept_bytes(positions, self.kind)
        return self.weight_bytes + cache + max(prefill, vision) + self.workspace_bytes

    def most_positions(self, memory_bytes: int) -> int:
        """The most positions that fit with its own frames; 0: not even its weights do."""
        return _most(lambda count: self.needed_bytes(count, self.frames) <= memory_bytes, MOST_POSITIONS)

    def most_frames(self, memory_bytes: int) -> int | None:
        """The most frames that fit with its text and answer; None where they take no positions of their own."""
        if not self.frame_positions:
            return None
        limit = MOST_POSITIONS // self.frame_positions
        return _most(lambda count: self.needed_bytes(self.positions(count), count) <= memory_bytes, limit)


def _most(holds: Callable[[int], bool], limit: int) -> int:
    """The largest count that holds, where every smaller one does too; 0 when not even one does."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low
