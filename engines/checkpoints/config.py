"""What the config.json of every family describes: a CLIP tower and a Llama, as transformers' configurations.

Which file says what is each family's own (`engines.families`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evprof.core.vocabulary.families import FAMILIES

if TYPE_CHECKING:
    from transformers import CLIPVisionConfig, LlamaConfig

CLIP_L14: dict[str, Any] = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "patch_size": 14,
    "hidden_act": "quick_gelu",
    "layer_norm_eps": 1e-5,
    "projection_dim": 768,
}
"""CLIP ViT-L/14; `image_size` is 224 for Video-LLaVA and 336 for all others."""

VICUNA_7B: dict[str, Any] = {
    "vocab_size": 32_000,
    "hidden_size": 4096,
    "intermediate_size": 11_008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
}
"""Llama-2-7B's shape, which Vicuna-7B v1.5 keeps."""

TEXT_KEYS = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "max_position_embeddings",
    "rms_norm_eps",
    "hidden_act",
    "attention_bias",
    "bos_token_id",
    "eos_token_id",
    "tie_word_embeddings",
)
VISION_KEYS = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_channels",
    "image_size",
    "patch_size",
    "hidden_act",
    "layer_norm_eps",
    "projection_dim",
)


@dataclass(frozen=True)
class ModelConfig:
    """A model of any family. `assumptions` are sentences about what its files left open.

    `feature_layer` is the index of the tower's hidden states that is read (-1: the last layer's), `has_adaptor` whether
    one linear layer follows the projector. `tower_folder` is a CLIP folder that describes the tower, where config.json
    does not, and `tower_is_given` whether the user named it rather than config.json, which calls it `tower_name`.
    `kept_layers` are the language model's layers that are used of the stored ones, all where it is empty (see
    `layer_drop`).
    """

    vision: CLIPVisionConfig
    text: LlamaConfig
    family: str = field(kw_only=True)
    feature_layer: int = field(default=-1, kw_only=True)
    projector_act: str = field(default="gelu", kw_only=True)
    has_adaptor: bool = field(default=False, kw_only=True)
    tower_folder: Path | None = field(default=None, kw_only=True)
    tower_is_given: bool = field(default=False, kw_only=True)
    tower_name: str | None = field(default=None, kw_only=True)
    assumptions: tuple[str, ...] = field(default=(), kw_only=True)
    kept_layers: tuple[int, ...] = field(default=(), kw_only=True)

    @property
    def model_type(self) -> str:
        """The name in config.json."""
        return FAMILIES[self.family].model_type

    @property
    def tokens_per_frame(self) -> int:
        """Visual tokens of one frame before anything is pooled over frames: by default the patches and the class
        token."""
        return patches(self.vision) + 1

    @property
    def projected_tokens(self) -> int:
        """Tokens of one frame that go through the projector: by default those there are after it."""
        return self.tokens_per_frame

    @property
    def patch_pooling(self) -> str:
        """How patches are pooled before or after the projector, in words; "" where they are not."""
        return ""


def patches(vision: CLIPVisionConfig) -> int:
    """Patches of one frame: (edge // patch)², for the square frames every family uses."""
    return (edge(vision) // number(vision.patch_size)) ** 2


def edge(vision: CLIPVisionConfig) -> int:
    """Pixels of a frame's edge."""
    return number(vision.image_size)


def number(value: object) -> int:
    """A whole number out of a configuration whose fields are loosely typed."""
    if not isinstance(value, int):
        raise ValueError(f"{value!r} where one whole number is needed")
    return value


def text_config(values: Mapping[str, Any]) -> LlamaConfig:
    """The language model of a file's values.

    Padding is left out: nothing is padded, and torch refuses a padding token outside the vocabulary.
    """
    from transformers import LlamaConfig

    found = {key: values[key] for key in TEXT_KEYS if key in values}
    found["tie_word_embeddings"] = bool(found.get("tie_word_embeddings", False))
    for name in ("rope_theta", "rope_scaling", "rope_parameters"):
        if values.get(name) is not None:
            found[name] = values[name]
    return LlamaConfig(**found)


def vision_config(values: Mapping[str, Any]) -> CLIPVisionConfig:
    """The tower of a file's values; what is missing has CLIP's defaults."""
    from transformers import CLIPVisionConfig

    return CLIPVisionConfig(**{key: values[key] for key in VISION_KEYS if key in values})
