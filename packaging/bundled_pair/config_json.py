"""Writes configurations as the config.json of published checkpoints; reading is `config`'s."""

from __future__ import annotations

from typing import Any

from transformers import CLIPVisionConfig, LlamaConfig

from engines.checkpoints.config import TEXT_KEYS, VISION_KEYS, ModelConfig, patches
from engines.families.llava_network import LlavaConfig

_ARCHITECTURES = {
    "llava": "LlavaForConditionalGeneration",
    "video_llava": "VideoLlavaForConditionalGeneration",
    "llava_next_video": "LlavaNextVideoForConditionalGeneration",
}


def eventgpt_json(config: ModelConfig, tower_path: str, dtype: str) -> dict[str, Any]:
    """config.json of an EventGPT checkpoint; `tower_path` is what `mm_visual_tower` names."""
    values: dict[str, Any] = {
        "architectures": ["EventChatModel"],
        "model_type": config.model_type,
        **_llama_json(config.text),
        "mm_visual_tower": tower_path,
        "mm_use_im_start_end": False,
        "mm_use_im_patch_token": False,
        "image_aspect_ratio": "square",
        "tokenizer_padding_side": "right",
        "tokenizer_model_max_length": 2048,
        "torch_dtype": dtype,
        "use_cache": True,
    }
    if config.has_adaptor:
        values["event_feature_adaptor"] = True
    return values


def llava_json(config: LlavaConfig, dtype: str) -> dict[str, Any]:
    """config.json of a checkpoint of the LLaVA families, as the published ones are written."""
    tokens = patches(config.vision)
    values: dict[str, Any] = {
        "architectures": [_ARCHITECTURES[config.family]],
        "ignore_index": -100,
        "image_seq_length": tokens,
        "image_token_index": config.image_token_id,
        "model_type": config.family,
        "multimodal_projector_bias": config.projector_bias,
        "projector_hidden_act": config.projector_act,
        "text_config": {"model_type": "llama", **_llama_json(config.text), "torch_dtype": dtype},
        "tie_word_embeddings": False,
        "torch_dtype": dtype,
        "vision_config": clip_json(config.vision),
        "vision_feature_layer": config.feature_layer,
        "vision_feature_select_strategy": "default",
    }
    if config.family == "video_llava":
        values["video_token_index"] = config.slot_id
        values["video_seq_length"] = 8 * (tokens + 1)
    elif config.family == "llava_next_video":
        values["video_token_index"] = config.slot_id
        values["video_seq_length"] = 8 * config.tokens_per_frame
        values["spatial_pool_mode"], values["spatial_pool_stride"] = config.pooling, config.pool_stride
        values["use_image_newline_parameter"] = True
    elif config.keeps_cls:
        values["vision_feature_select_strategy"] = "full"
    return values


def clip_json(config: CLIPVisionConfig) -> dict[str, Any]:
    """config.json of a CLIP tower."""
    return {"model_type": "clip_vision_model", **{key: getattr(config, key) for key in VISION_KEYS}}


def _llama_json(config: LlamaConfig) -> dict[str, Any]:
    values = {key: getattr(config, key) for key in TEXT_KEYS}
    rope = config.rope_parameters or {}
    values["rope_theta"] = rope.get("rope_theta", 10_000.0)
    if rope.get("rope_type", "default") != "default":
        values["rope_scaling"] = {key: value for key, value in rope.items() if key != "rope_theta"}
    return values
