"""What a checkpoint's config.json says, read into transformers' configurations.

EventGPT's file describes the language model only and names its CLIP tower by path; the tower's shape is then found in
that folder (see `clip_folder`) or is that of CLIP ViT-L/14 at 336 pixels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from transformers import CLIPVisionConfig, LlamaConfig

from engines.checkpoints.clip_folder import given_folder, named_folder
from engines.checkpoints.json_file import read_json
from engines.checkpoints.naming import EVENTGPT, LLAVA, LLAVA_NEXT_VIDEO, VIDEO_LLAVA
from engines.checkpoints.shape_check import check_activation, check_layer, check_pooling, check_shape
from evprof.core.errors import UserError

EVENTGPT_MODEL_TYPE = "EventChat_llama"
FAMILY_OF_MODEL_TYPE = {
    EVENTGPT_MODEL_TYPE: EVENTGPT,
    "llava": LLAVA,
    "video_llava": VIDEO_LLAVA,
    "llava_next_video": LLAVA_NEXT_VIDEO,
}
"""`model_type` of config.json -> family."""

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
    "pad_token_id",
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
class EventGptConfig:
    """EventGPT: a CLIP tower, a Llama, and between them a projector and (`has_adaptor`) one linear adaptor.

    `tower_folder` is the CLIP folder found on this machine, and `tower_is_given` whether the user named it rather than
    config.json, whose own `mm_visual_tower` is `tower_name`. `kept_layers` are the language model's layers that are
    used of the stored ones, all where it is empty (see `layer_drop`).
    """

    vision: CLIPVisionConfig
    text: LlamaConfig
    has_adaptor: bool = True
    assumptions: tuple[str, ...] = ()
    tower_folder: Path | None = None
    tower_is_given: bool = False
    tower_name: str | None = None
    kept_layers: tuple[int, ...] = ()

    family = EVENTGPT
    model_type = EVENTGPT_MODEL_TYPE

    @property
    def tokens_per_frame(self) -> int:
        """Visual tokens of one frame before pooling over frames: the patches and the class token."""
        return patches(self.vision) + 1


@dataclass(frozen=True)
class LlavaConfig:
    """LLaVA-1.5, Video-LLaVA or LLaVA-NeXT-Video: CLIP, two linear layers, Llama.

    `feature_layer` is the index of the tower's hidden states that is read (-2: one before the last); `keeps_cls` says
    whether the class token stays among the visual tokens. `pooling` is None or how squares of `pool_stride` x
    `pool_stride` patches become one token. `slot_id` is the id the prompt's slot is replaced at. `kept_layers` is as in
    EventGPT's.
    """

    family: str
    vision: CLIPVisionConfig
    text: LlamaConfig
    slot_id: int
    feature_layer: int = -2
    keeps_cls: bool = False
    projector_act: str = "gelu"
    projector_bias: bool = True
    image_token_id: int = 32_000
    assumptions: tuple[str, ...] = field(default=())
    pooling: str | None = None
    pool_stride: int = 2
    kept_layers: tuple[int, ...] = ()

    @property
    def model_type(self) -> str:
        """The name in config.json."""
        return self.family

    @property
    def tokens_per_frame(self) -> int:
        """Visual tokens of one frame; where patches are pooled, what does not fill a square is dropped."""
        if self.pooling is None:
            return patches(self.vision) + int(self.keeps_cls)
        side: int = edge(self.vision) // number(self.vision.patch_size)
        return (side // self.pool_stride) ** 2


ModelConfig = EventGptConfig | LlavaConfig


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


def read_config(folder: Path, clip: str | None = None, *, holds_tower: bool = True) -> ModelConfig:
    """The configuration in `folder`/config.json. Raises UserError for a missing file or an unknown model_type.

    `clip` is a CLIP folder the user named. It describes EventGPT's tower unless the weights hold a tower of their own
    (`holds_tower`) and config.json names a folder for it.
    """
    path = folder / "config.json"
    values = read_json(path)
    model_type = values.get("model_type")
    family = FAMILY_OF_MODEL_TYPE.get(str(model_type))
    if family is None:
        known = ", ".join(FAMILY_OF_MODEL_TYPE)
        named = f"names model_type '{model_type}'" if model_type is not None else "names no model_type"
        raise UserError(f"{path} {named}; evprof knows {known}: choose a checkpoint of one of these.")
    try:
        if family == EVENTGPT:
            config: ModelConfig = _eventgpt_config(folder, values, clip, holds_tower)
        else:
            config = _llava_config(path, family, values)
        check_shape(config.vision, config.text)
        if isinstance(config, LlavaConfig):
            check_layer(config.feature_layer, config.vision)
            check_activation("the projector's", config.projector_act)
            check_pooling(config.pooling, config.pool_stride, config.vision)
    except (TypeError, ValueError, KeyError, AttributeError, StrictDataclassError) as error:
        # transformers' own complaint stands below its validator's name.
        reason = str(error).strip().splitlines()[-1].strip().removeprefix("ValueError: ").removeprefix("TypeError: ")
        raise UserError(
            f"{path} does not describe a {family} model ({reason.rstrip('.')}); download the checkpoint again."
        ) from None
    return config


def _eventgpt_config(folder: Path, values: dict[str, Any], clip: str | None, holds_tower: bool) -> EventGptConfig:
    if values.get("use_event_qformer"):
        raise UserError(
            f"{folder / 'config.json'} asks for a Q-Former (use_event_qformer), which no published code describes; "
            "use a checkpoint without one."
        )
    assumptions: list[str] = []
    tower = values.get("mm_visual_tower")
    named, given = named_folder(folder, tower), given_folder(clip) if clip is not None else None
    is_given = given is not None and (named is None or not holds_tower)
    tower_folder = given if is_given else named
    if given is not None and holds_tower:
        assumptions.append(f"The weights hold a CLIP tower of their own, which is used instead of that in {given}.")
    if tower_folder is None:
        assumptions.append(
            f"mm_visual_tower '{tower}' is not on this machine; the tower is taken to be CLIP ViT-L/14 at 336 pixels."
        )
        vision = CLIPVisionConfig(**CLIP_L14, image_size=336)
    else:
        tower_values = read_json(tower_folder / "config.json")
        vision = CLIPVisionConfig(**_chosen(tower_values.get("vision_config") or tower_values, VISION_KEYS))
    if "event_feature_adaptor" not in values:
        assumptions.append("config.json has no event_feature_adaptor, so the model is built without an adaptor.")
    for flag in ("mm_use_im_start_end", "mm_use_im_patch_token"):
        if values.get(flag):
            assumptions.append(f"{flag} is set, but event markers are read as ordinary text, as in the released code.")
    return EventGptConfig(
        vision,
        _text_config(values),
        "event_feature_adaptor" in values,
        tuple(assumptions),
        tower_folder,
        is_given,
        tower if isinstance(tower, str) else None,
    )


def _llava_config(path: Path, family: str, values: dict[str, Any]) -> LlavaConfig:
    text, seen = dict(values.get("text_config") or {}), dict(values.get("vision_config") or {})
    _check_parts(path, text, seen)
    # Published files keep only what differs from Llama's defaults of their day; the rest is Vicuna-7B's.
    filled = {**VICUNA_7B, **text}
    if "num_attention_heads" in text and "num_key_value_heads" not in text:
        filled["num_key_value_heads"] = text["num_attention_heads"]
    vision = {**CLIP_L14, "image_size": 224 if family == VIDEO_LLAVA else 336, **seen}
    layer = values.get("vision_feature_layer", -2)
    if not isinstance(layer, int):
        raise ValueError(f"vision_feature_layer {layer!r}: one layer is supported")
    is_next = family == LLAVA_NEXT_VIDEO
    image_id = int(values.get("image_token_index", values.get("image_token_id", 32_001 if is_next else 32_000)))
    video_id = int(values.get("video_token_index", values.get("video_token_id", 32_000 if is_next else 32_001)))
    strategy = values.get("vision_feature_select_strategy", "default")
    if is_next and strategy != "default":
        raise ValueError(f"vision_feature_select_strategy '{strategy}' leaves no square of patches to pool")
    return LlavaConfig(
        family=family,
        vision=CLIPVisionConfig(**_chosen(vision, VISION_KEYS)),
        text=_text_config(filled),
        slot_id=image_id if family == LLAVA else video_id,
        feature_layer=layer,
        # Video-LLaVA's video features are never cut, whatever the strategy says; it is the images' alone.
        keeps_cls=family == VIDEO_LLAVA or strategy == "full",
        projector_act=str(values.get("projector_hidden_act", "gelu")),
        projector_bias=bool(values.get("multimodal_projector_bias", True)),
        image_token_id=image_id,
        pooling=str(values.get("spatial_pool_mode", "average")) if is_next else None,
        pool_stride=values.get("spatial_pool_stride", 2) if is_next else 2,
    )


def _check_parts(path: Path, text: dict[str, Any], vision: dict[str, Any]) -> None:
    """Families are built of other parts, too (Mistral, Qwen, SigLIP), which are no damage but nothing we can run."""
    language, tower = text.get("model_type", "llama"), vision.get("model_type", "clip_vision_model")
    if language != "llama":
        raise UserError(f"{path}: the language model is of type '{language}'; evprof runs those with a Llama inside.")
    if tower not in ("clip_vision_model", "clip"):
        raise UserError(f"{path}: the vision tower is of type '{tower}'; evprof runs those with a CLIP tower.")


def _text_config(values: dict[str, Any]) -> LlamaConfig:
    chosen = _chosen(values, TEXT_KEYS)
    chosen["tie_word_embeddings"] = bool(chosen.get("tie_word_embeddings", False))
    for name in ("rope_theta", "rope_scaling", "rope_parameters"):
        if values.get(name) is not None:
            chosen[name] = values[name]
    return LlamaConfig(**chosen)


def _chosen(values: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: values[key] for key in keys if key in values}
