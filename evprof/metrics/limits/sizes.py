"""Sizes of models and ceilings of machines as a session notes them, and the published ones of 7B models.

Notes come out of a file: what is no such note counts as not there. It knows no run's times.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from evprof.core.plain import UnfitError, read
from evprof.core.run_info import ModelFacts
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.families import FAMILIES, Family, TextShape, VisionShape

VICUNA_7B = TextShape(
    layers=32, hidden=4096, intermediate=11_008, heads=32, kv_heads=32, head_dim=128, vocabulary=32_000
)
"""The language model of every family's 7B model, but for up to 64 rows of the vocabulary."""

QWEN2_1_5B = TextShape(
    layers=28, hidden=1536, intermediate=8960, heads=12, kv_heads=2, head_dim=128, vocabulary=151_936, is_tied=True
)
"""EventGPT-Plus' language model, Qwen2.5-1.5B, without its biases (57,344 numbers)."""

TEXT_SHAPES = {"7B": VICUNA_7B, "1.5B": QWEN2_1_5B}
"""By the size that a family's published model has."""


def _published_vision(family: Family) -> VisionShape:
    hidden, patches = TEXT_SHAPES[family.size].hidden, (family.image_size // 14) ** 2
    into = ((1024, hidden), (hidden, hidden))
    return VisionShape(
        frames=1,
        layers=family.tower_layers,
        width=1024,
        intermediate=4096,
        patch=14,
        patches=patches,
        kept=family.frame_tokens,
        projections=(*into, (hidden, hidden)) if family.has_adaptor else into,
        projected=patches if family.pools_projected else None,
    )


PUBLISHED_VISION: dict[str, VisionShape] = {key: _published_vision(family) for key, family in FAMILIES.items()}
"""CLIP ViT-L/14 in front of the language model by family, for one frame."""

ITEM_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_PACKED_BYTES = {"int8": 1.0, "int4": 0.5, "nf4": 0.5, "fp8": 1.0, "8bit": 1.0, "4bit": 0.5}
"""Bytes of a packed weight without its scales; imported files say 8bit and 4bit."""


@dataclass(frozen=True)
class DeviceCeiling:
    """What a device did at most when it was asked to: bytes a second from memory, operations a second in `dtype`."""

    device: str
    dtype: str
    threads: int
    bandwidth_bytes_s: float
    matmul_flops_s: float
    cache_bytes: int | None = None

    @property
    def balance(self) -> float:
        """Operations per byte above which arithmetic is what takes the time, and below which memory is."""
        return self.matmul_flops_s / self.bandwidth_bytes_s


@dataclass(frozen=True)
class ModelSizes:
    """Shapes of a model; `vision` is that of one frame. `is_published`: noted by nobody, but the published."""

    name: str
    family: str
    text: TextShape
    vision: VisionShape | None
    is_published: bool = False

    def visual_tokens(self, frames: int, *, is_pooled: bool = True) -> int | None:
        """Positions that so many frames bring: each its own, or, where frames are pooled, one a frame and one for each
        token of a frame."""
        if self.vision is None:
            return None
        if self.family in FAMILIES and FAMILIES[self.family].pools_frames:
            return frames + self.vision.kept if is_pooled else self.vision.kept
        return frames * self.vision.kept

    def streamed_bytes(self, model: ModelFacts) -> float | None:
        """Bytes of weights that one pass reads at least, quantized ones as they are packed; None for unknown kinds."""
        item = ITEM_BYTES.get(model.dtype)
        each = item if model.quantization is None else _PACKED_BYTES.get(model.quantization)
        if item is None or each is None:
            return None
        return self.text.layer_weights * each + (self.text.norm_weights + self.text.head_weights) * item


def read_ceilings(noted: Iterable[Any]) -> list[DeviceCeiling]:
    found = []
    for entry in (entry for notes in noted if isinstance(notes, list) for entry in notes):
        if not isinstance(entry, dict):
            continue
        rates = [_positive(entry.get(key)) for key in ("copy_bytes_s", "read_bytes_s", "matmul_flops_s")]
        device, dtype, threads = entry.get("device"), entry.get("dtype"), entry.get("threads")
        known = [rate for rate in rates[:2] if rate is not None]
        if known and rates[2] is not None and isinstance(device, str) and isinstance(dtype, str):
            cache = _positive(entry.get("cache_bytes"))
            count = threads if isinstance(threads, int) else 0
            found.append(DeviceCeiling(device, dtype, count, max(known), rates[2], int(cache) if cache else None))
    return found


def read_models(noted: Iterable[Any]) -> dict[str, ModelSizes]:
    """The models in notes called "models" by name; of one noted twice, the last."""
    found = {}
    for name, entry in (pair for notes in noted if isinstance(notes, dict) for pair in notes.items()):
        if not isinstance(entry, dict):
            continue
        text = _shape(TextShape, entry.get("text"))
        if text is None:
            continue
        family = entry.get("family")
        found[name] = ModelSizes(
            name, family if isinstance(family, str) else "", text, _shape(VisionShape, entry.get("vision"))
        )
    return found


def read_words(noted: Iterable[Any]) -> dict[str, dict[str, str | int]]:
    """What notes called "models" say in words of a model's "architecture": backbone, vision_tower, projector, …"""
    found: dict[str, dict[str, str | int]] = {}
    for name, entry in (pair for notes in noted if isinstance(notes, dict) for pair in notes.items()):
        words = entry.get("architecture") if isinstance(entry, dict) else None
        if isinstance(words, dict):
            found[name] = {key: value for key, value in words.items() if isinstance(value, str | int)}
    return found


def is_7b(model: ModelFacts) -> bool:
    """Whether a model's cache has the layout of a 7B Llama: 32 layers of 32 heads of 128."""
    return (model.layers, model.kv_heads, model.head_dim) == (32, 32, 128)


def sizes_of(model: ModelFacts | None, noted: Mapping[str, ModelSizes]) -> ModelSizes | None:
    """What is noted of a model, or told with the run, or else the published sizes if its cache is laid out so; None
    without any."""
    if model is None:
        return None
    known = noted.get(model.name)
    if known is not None:
        return known if known.family else replace(known, family=model.family)
    if model.text is not None and _is_sound(model.text):
        vision = model.vision if model.vision is not None and _is_sound(model.vision) else None
        return ModelSizes(model.name, model.family, model.text, vision)
    if not is_7b(model):
        return None
    return ModelSizes(model.name, model.family, VICUNA_7B, PUBLISHED_VISION.get(model.family), is_published=True)


def ceiling_of(run: RunLog, role: str, ceilings: Iterable[DeviceCeiling]) -> DeviceCeiling | None:
    """The ceiling measured where a run's model computed: same device and dtype, and on a CPU as many threads."""
    model = run.info.models.get(role)
    if model is None or run.info.imported is not None:
        return None
    here = [entry for entry in ceilings if (entry.device, entry.dtype) == (model.device, model.dtype)]
    threads = run.info.environment.get("threads")
    if model.device == "cpu" and isinstance(threads, int):
        here = [entry for entry in here if entry.threads == threads]
    return here[0] if here else None


def _positive(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) and value > 0 else None


Kind = TypeVar("Kind", TextShape, VisionShape)


def _shape(kind: type[Kind], values: Any) -> Kind | None:
    """A shape from plain values; None when one of its numbers is missing, or cannot be that of a model."""
    try:
        shape: Kind = read(values, kind)
    except UnfitError:
        return None
    return shape if _is_sound(shape) else None


def _is_sound(shape: TextShape | VisionShape) -> bool:
    """Whether its numbers can be those of a model: they may come out of a file."""
    return all(0 < size < 1 << 62 for size in vars(shape).values() if type(size) is int)
