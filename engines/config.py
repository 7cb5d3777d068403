"""What a checkpoint's config.json says, read into transformers' configurations and written back in the published form.

EventGPT's file describes the language model only and names its CLIP tower by path; the tower's shape is then found in
that folder or is that of CLIP ViT-L/14 at 336 pixels.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from transformers import CLIPVisionConfig, LlamaConfig

from engines.naming import EVENTGPT, LLAVA, VIDEO_LLAVA
from engines.shape_check import check_activation, check_layer, check_shape
from evprof.core.errors import UserError

EVENTGPT_MODEL_TYPE = "EventChat_llama"
FAMILY_OF_MODEL_TYPE = {EVENTGPT_MODEL_TYPE: EVENTGPT, "llava": LLAVA, "video_llava": VIDEO_LLAVA}
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
"""CLIP ViT-L/14; `image_size` is 336 for EventGPT and LLaVA-1.5, 224 for Video-LLaVA."""

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

_TEXT_KEYS = (
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
_VISION_KEYS = (
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

    `tower_folder` is where the tower that config.json names was found on this machine.
    """

    vision: CLIPVisionConfig
    text: LlamaConfig
    has_adaptor: bool = True
    assumptions: tuple[str, ...] = ()
    tower_folder: Path | None = None

    family = EVENTGPT
    model_type = EVENTGPT_MODEL_TYPE


@dataclass(frozen=True)
class LlavaConfig:
    """LLaVA-1.5 or Video-LLaVA: CLIP, two linear layers, Llama.

    `feature_layer` is the index of the tower's hidden states that is read (-2: one before the last); `keeps_cls` says
    whether the class token stays among the visual tokens. `slot_id` is the id the prompt's slot is replaced at.
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

    @property
    def model_type(self) -> str:
        """The name in config.json."""
        return self.family


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


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file. Raises UserError naming the file when it is missing or is something else."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} is missing; a checkpoint folder needs it beside its weights.") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise UserError(f"{path} cannot be read as JSON ({error}); download the checkpoint again.") from None
    if not isinstance(values, dict):
        raise UserError(f"{path} holds no JSON object; download the checkpoint again.")
    return values


def read_config(folder: Path) -> ModelConfig:
    """The configuration in `folder`/config.json. Raises UserError for a missing file or an unknown model_type."""
    path = folder / "config.json"
    values = read_json(path)
    model_type = values.get("model_type")
    family = FAMILY_OF_MODEL_TYPE.get(str(model_type))
    if family is None:
        known = ", ".join(FAMILY_OF_MODEL_TYPE)
        named = f"names model_type '{model_type}'" if model_type is not None else "names no model_type"
        raise UserError(f"{path} {named}; evprof knows {known}: choose a checkpoint of one of these.")
    try:
        config = _eventgpt_config(folder, values) if family == EVENTGPT else _llava_config(family, values)
        check_shape(config.vision, config.text)
        if isinstance(config, LlavaConfig):
            check_layer(config.feature_layer, config.vision)
            check_activation("the projector's", config.projector_act)
    except (TypeError, ValueError, KeyError, AttributeError, StrictDataclassError) as error:
        # transformers' own complaint stands below its validator's name.
        reason = str(error).strip().splitlines()[-1].strip().removeprefix("ValueError: ").removeprefix("TypeError: ")
        raise UserError(
            f"{path} does not describe a {family} model ({reason.rstrip('.')}); download the checkpoint again."
        ) from None
    return config


def _eventgpt_config(folder: Path, values: dict[str, Any]) -> EventGptConfig:
    if values.get("use_event_qformer"):
        raise UserError(
            f"{folder / 'config.json'} asks for a Q-Former (use_event_qformer), which no published code describes; "
            "use a checkpoint without one."
        )
    assumptions: list[str] = []
    tower = values.get("mm_visual_tower")
    tower_folder = _tower_folder(folder, tower)
    if tower_folder is None:
        assumptions.append(
            f"mm_visual_tower '{tower}' is not on this machine; the tower is taken to be CLIP ViT-L/14 at 336 pixels."
        )
        vision = CLIPVisionConfig(**CLIP_L14, image_size=336)
    else:
        tower_values = read_json(tower_folder / "config.json")
        vision = CLIPVisionConfig(**_chosen(tower_values.get("vision_config") or tower_values, _VISION_KEYS))
    if "event_feature_adaptor" not in values:
        assumptions.append("config.json has no event_feature_adaptor, so the model is built without an adaptor.")
    for flag in ("mm_use_im_start_end", "mm_use_im_patch_token"):
        if values.get(flag):
            assumptions.append(f"{flag} is set, but event markers are read as ordinary text, as in the released code.")
    return EventGptConfig(
        vision, _text_config(values), "event_feature_adaptor" in values, tuple(assumptions), tower_folder
    )


def _tower_folder(folder: Path, value: object) -> Path | None:
    """The CLIP folder that `mm_visual_tower` names: inside the checkpoint, anywhere, or in the Hugging Face cache."""
    if not isinstance(value, str) or not value:
        return None
    places = [folder / value, Path(value)]
    if not any(place.exists() for place in places):
        places += _cached(value if "/" in value else f"openai/{value}")
    return next((place for place in places if (place / "config.json").is_file()), None)


def _cached(hub_id: str) -> list[Path]:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return [Path(snapshot_download(hub_id, local_files_only=True))]
    except (LocalEntryNotFoundError, HFValidationError):
        return []


def _llava_config(family: str, values: dict[str, Any]) -> LlavaConfig:
    text = dict(values.get("text_config") or {})
    # Published files keep only what differs from Llama's defaults of their day; the rest is Vicuna-7B's.
    filled = {**VICUNA_7B, **text}
    vision = {**CLIP_L14, "image_size": 224 if family == VIDEO_LLAVA else 336, **(values.get("vision_config") or {})}
    layer = values.get("vision_feature_layer", -2)
    if not isinstance(layer, int):
        raise ValueError(f"vision_feature_layer {layer!r}: one layer is supported")
    image_id = int(values.get("image_token_index", values.get("image_token_id", 32_000)))
    video_id = int(values.get("video_token_index", values.get("video_token_id", 32_001)))
    strategy = values.get("vision_feature_select_strategy", "default")
    return LlavaConfig(
        family=family,
        vision=CLIPVisionConfig(**_chosen(vision, _VISION_KEYS)),
        text=_text_config(filled),
        slot_id=video_id if family == VIDEO_LLAVA else image_id,
        feature_layer=layer,
        # Video features are never cut, whatever the strategy says; it is the images' alone.
        keeps_cls=family == VIDEO_LLAVA or strategy == "full",
        projector_act=str(values.get("projector_hidden_act", "gelu")),
        projector_bias=bool(values.get("multimodal_projector_bias", True)),
        image_token_id=image_id,
    )


def _text_config(values: dict[str, Any]) -> LlamaConfig:
    chosen = _chosen(values, _TEXT_KEYS)
    chosen["tie_word_embeddings"] = bool(chosen.get("tie_word_embeddings", False))
    for name in ("rope_theta", "rope_scaling", "rope_parameters"):
        if values.get(name) is not None:
            chosen[name] = values[name]
    return LlamaConfig(**chosen)


def _chosen(values: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: values[key] for key in keys if key in values}


def eventgpt_json(config: EventGptConfig, tower_path: str, dtype: str) -> dict[str, Any]:
    """config.json of an EventGPT checkpoint; `tower_path` is what `mm_visual_tower` names."""
    values: dict[str, Any] = {
        "architectures": ["EventChatModel"],
        "model_type": EVENTGPT_MODEL_TYPE,
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
    """config.json of a LLaVA-1.5 or Video-LLaVA checkpoint, as the published ones are written."""
    tokens = patches(config.vision)
    values: dict[str, Any] = {
        "architectures": [
            "VideoLlavaForConditionalGeneration" if config.family == VIDEO_LLAVA else "LlavaForConditionalGeneration"
        ],
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
    if config.family == VIDEO_LLAVA:
        values["video_token_index"] = config.slot_id
        values["video_seq_length"] = 8 * (tokens + 1)
    elif config.keeps_cls:
        values["vision_feature_select_strategy"] = "full"
    return values


def clip_json(config: CLIPVisionConfig) -> dict[str, Any]:
    """config.json of a CLIP tower."""
    return {"model_type": "clip_vision_model", **{key: getattr(config, key) for key in _VISION_KEYS}}


def _llama_json(config: LlamaConfig) -> dict[str, Any]:
    values = {key: getattr(config, key) for key in _TEXT_KEYS}
    rope = config.rope_parameters or {}
    values["rope_theta"] = rope.get("rope_theta", 10_000.0)
    if rope.get("rope_type", "default") != "default":
        values["rope_scaling"] = {key: value for key, value in rope.items() if key != "rope_theta"}
    return values
