"""Whether a configuration describes a network that can exist at all, before anything is built from it.

A config.json is somebody else's file: a billion layers would be laid out until memory ran out, and a width of zero
would fail somewhere inside a module, in words nobody could act on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import CLIPVisionConfig, LlamaConfig

_MOST_LAYERS, _MOST_WIDTH, _MOST_ROWS = 1_000, 1_000_000, 10_000_000
"""Far above any model there is, far below what could not be laid out."""

_TEXT_LIMITS = {
    "vocab_size": _MOST_ROWS,
    "hidden_size": _MOST_WIDTH,
    "intermediate_size": _MOST_WIDTH,
    "num_hidden_layers": _MOST_LAYERS,
    "num_attention_heads": _MOST_WIDTH,
    "num_key_value_heads": _MOST_WIDTH,
    "max_position_embeddings": _MOST_ROWS,
}
_VISION_LIMITS = {
    "hidden_size": _MOST_WIDTH,
    "intermediate_size": _MOST_WIDTH,
    "num_hidden_layers": _MOST_LAYERS,
    "num_attention_heads": _MOST_WIDTH,
    "num_channels": _MOST_WIDTH,
    "image_size": _MOST_WIDTH,
    "patch_size": _MOST_WIDTH,
}


def check_shape(vision: CLIPVisionConfig, text: LlamaConfig) -> None:
    """Raises ValueError, naming the field, unless tower and language model can be laid out."""
    tower = _numbers("the vision tower's", vision, _VISION_LIMITS)
    language = _numbers("the language model's", text, _TEXT_LIMITS)
    for part, sizes in (("the vision tower's", tower), ("the language model's", language)):
        width, heads = sizes["hidden_size"], sizes["num_attention_heads"]
        if width % heads:
            raise ValueError(f"{part} hidden_size {width} cannot be divided among {heads} heads")
    heads, shared = language["num_attention_heads"], language["num_key_value_heads"]
    if heads % shared:
        raise ValueError(f"{heads} heads cannot share {shared} key-value heads evenly")
    if tower["patch_size"] > tower["image_size"]:
        raise ValueError(f"patch_size {tower['patch_size']} is larger than image_size {tower['image_size']}")
    check_activation("the vision tower's", vision.hidden_act)
    check_activation("the language model's", text.hidden_act)
    check_rotary(text)


def check_rotary(text: LlamaConfig) -> None:
    """Raises ValueError unless transformers can compute the rotary frequencies that are described."""
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    try:
        LlamaRotaryEmbedding(config=text)
    except Exception as error:  # noqa: BLE001 - every scaling fails in its own way, down to division by zero
        raise ValueError(f"its rotary positions {text.rope_parameters} cannot be computed: {error}") from None


def check_layer(layer: int, vision: CLIPVisionConfig) -> None:
    """Raises ValueError unless the tower has hidden states of that index (its input counts as one)."""
    states = _numbers("the vision tower's", vision, _VISION_LIMITS)["num_hidden_layers"] + 1
    if not -states <= layer < states:
        raise ValueError(f"vision_feature_layer {layer} is outside a tower of {vision.num_hidden_layers} layers")


def check_pooling(pooling: str | None, stride: object, vision: CLIPVisionConfig) -> None:
    """Raises ValueError unless patches can be pooled that way; `pooling` None is no pooling."""
    if pooling is None:
        return
    if pooling not in ("average", "max"):
        raise ValueError(f"spatial_pool_mode '{pooling}'; average and max are supported")
    sizes = _numbers("the vision tower's", vision, _VISION_LIMITS)
    side = sizes["image_size"] // sizes["patch_size"]
    if not isinstance(stride, int) or isinstance(stride, bool) or not 1 <= stride <= side:
        raise ValueError(f"spatial_pool_stride is {stride!r}, not a whole number from 1 to {side}")


def check_activation(part: str, name: object) -> None:
    """Raises ValueError unless transformers knows the activation function."""
    from transformers.activations import ACT2FN

    if name not in ACT2FN:
        raise ValueError(f"{part} activation '{name}' is unknown")


def _numbers(part: str, config: CLIPVisionConfig | LlamaConfig, limits: Mapping[str, int]) -> dict[str, int]:
    """The fields of `limits`. Raises ValueError for one that is no whole number or out of bounds."""
    found: dict[str, int] = {}
    for name, most in limits.items():
        value = getattr(config, name)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            raise ValueError(f"{part} {name} is {value!r}, not a whole number from 1 to {most}")
        found[name] = value
    return found
