"""What a model is built of and how much it computes, from its configuration alone: in words for tables, in numbers for
arithmetic. It knows no weights and no times.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from engines.checkpoints.config import ModelConfig, edge, number
from engines.checkpoints.qwen2_text import is_qwen2
from engines.fit.requirements import picture_count, visual_positions
from engines.loading.shapes import text_shape, vision_shape
from evprof.core.vocabulary.families import FAMILIES
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.core.vocabulary.model_shapes import TextShape
from evprof.metrics.limits.roofline import decode_flops, mean_context, prefill_flops, vision_flops
from evprof.metrics.limits.sizes import VICUNA_7B

if TYPE_CHECKING:
    from transformers import CLIPVisionConfig

_TOWERS = {(768, 12): "B", (1024, 24): "L", (1280, 32): "H"}
"""Width and layers of the vision transformers that have a letter (Dosovitskiy et al., arXiv 2010.11929)."""


def describe_model(config: ModelConfig, settings: GenerationSettings) -> dict[str, Any]:
    """{"architecture", "text", "vision", "flops"} of a model as plain JSON; `vision` is that of one frame."""
    vision = asdict(replace(vision_shape(config), frames=1))
    return {
        "architecture": {
            "backbone": backbone_name(text_shape(config.text), "Qwen2" if is_qwen2(config.text) else "Llama"),
            "vision_tower": tower_name(config.vision),
            "projector": projector_name(config),
            "image_size": edge(config.vision),
            "vision_heads": number(config.vision.num_attention_heads),
            "tokens_per_frame": config.tokens_per_frame,
        },
        "text": asdict(text_shape(config.text)),
        "vision": vision | {"projections": [list(pair) for pair in vision["projections"]]},
        "flops": flops(config, settings),
    }


def backbone_name(text: TextShape, kind: str = "Llama") -> str:
    """`Llama, Vicuna-7B's shape` for the published shape, whatever its vocabulary; else the number of parameters."""
    if replace(text, vocabulary=VICUNA_7B.vocabulary) == VICUNA_7B:
        return "Llama, Vicuna-7B's shape"
    return f"{kind}, {text.parameters / 1e6:,.1f} million parameters"


def tower_name(vision: CLIPVisionConfig) -> str:
    """`CLIP ViT-L/14, 336 px`; a tower without a letter by its layers and width."""
    layers, width, patch = (number(size) for size in (vision.num_hidden_layers, vision.hidden_size, vision.patch_size))
    letter = _TOWERS.get((width, layers))
    size = f"ViT-{letter}/{patch}" if letter else f"ViT, {layers} layers of {width}, patch {patch}"
    return f"CLIP {size}, {edge(vision)} px"


def projector_name(config: ModelConfig) -> str:
    """What lies between tower and language model, in order."""
    width, hidden = number(config.vision.hidden_size), config.text.hidden_size
    parts = [f"linear {width}→{hidden}", config.projector_act, f"linear {hidden}→{hidden}"]
    if config.has_adaptor:
        parts.append(f"adaptor {hidden}→{hidden}")
    if config.patch_pooling:
        parts.insert(len(parts) if FAMILIES[config.family].pools_projected else 0, config.patch_pooling)
    if FAMILIES[config.family].pools_frames:
        parts.append("mean pooling")
    return ", ".join(parts)


def flops(config: ModelConfig, settings: GenerationSettings) -> dict[str, Any]:
    """Operations by shape: of prefilling a prompt of one sentence, of the mean decoded token, of one frame's vision.

    A multiply-add counts as two; formulas are `evprof.metrics.limits.roofline`'s. `decode_context` is the mean number
    of positions that a step of the settings' answer sees.
    """
    text, vision = text_shape(config.text), replace(vision_shape(config), frames=1)
    positions = visual_positions(config, settings) + FAMILIES[config.family].text_positions
    context = mean_context(positions, max(settings.max_new_tokens - 1, 1))
    return {
        "prefill": prefill_flops(text, positions),
        "prefill_positions": positions,
        "decode_per_token": decode_flops(text, context),
        "decode_context": context,
        "vision_per_frame": vision_flops(vision),
        "frames": picture_count(config, settings),
    }
