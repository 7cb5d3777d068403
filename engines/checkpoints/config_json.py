"""Writes a tower and a language model as the config.json of published checkpoints describes them."""

from __future__ import annotations

from typing import Any

from transformers import CLIPVisionConfig, LlamaConfig

from engines.checkpoints.config import TEXT_KEYS, VISION_KEYS


def clip_json(config: CLIPVisionConfig) -> dict[str, Any]:
    """config.json of a CLIP tower."""
    return {"model_type": "clip_vision_model", **{key: getattr(config, key) for key in VISION_KEYS}}


def llama_json(config: LlamaConfig) -> dict[str, Any]:
    """What it says of a language model."""
    values = {key: getattr(config, key) for key in TEXT_KEYS}
    rope = config.rope_parameters or {}
    values["rope_theta"] = rope.get("rope_theta", 10_000.0)
    if rope.get("rope_type", "default") != "default":
        values["rope_scaling"] = {key: value for key, value in rope.items() if key != "rope_theta"}
    return values
