"""Write models as checkpoint folders in the layouts that their families were published in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn
from transformers import CLIPVisionConfig, LlamaConfig

import assets
from engines.checkpoints.config import TEXT_KEYS, VISION_KEYS, ModelConfig, edge, patches
from engines.checkpoints.naming import Naming
from engines.families.eventgpt import EventGptModel
from engines.families.llava_model import LlavaConfig, LlavaModel
from engines.families.networks import engine_family
from engines.stages.pixel_values import CLIP_MEAN, CLIP_STD

_MODELS = Path(assets.__file__).parent / "models"
TOKENIZER_MODEL = (_MODELS / "evprof-tiny-eventgpt" / "tokenizer.model").read_bytes()
"""The bundled pair's sentencepiece vocabulary."""
TOKENIZER_JSON = (_MODELS / "evprof-tiny-video-llava" / "tokenizer.json").read_bytes()
"""The same vocabulary for the tokenizers library, with Video-LLaVA's three tokens above it."""
PIECES = 765
"""Size of the shared vocabulary."""
WEIGHTS = "model.safetensors"
TOWER_FOLDER = "visual_tower"
"""Where a written EventGPT checkpoint describes its tower; config.json's `mm_visual_tower` points here."""


def write_eventgpt(
    folder: Path,
    model: EventGptModel,
    tokenizer_model: bytes,
    *,
    dtype: torch.dtype = torch.bfloat16,
    shard_bytes: int | None = None,
) -> None:
    """Writes `model` and its sentencepiece vocabulary into `folder` (made if needed) as an EventGPT checkpoint.

    `shard_bytes` is the most one weight file holds (a larger tensor gets one to itself); None writes a single file.
    """
    config = model.config
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.model").write_bytes(tokenizer_model)
    tower = folder / TOWER_FOLDER
    tower.mkdir(exist_ok=True)
    _write_json(tower / "config.json", clip_json(config.vision))
    _write_json(tower / "preprocessor_config.json", preprocessor_json(edge(config.vision)))
    _write_json(folder / "config.json", eventgpt_json(config, TOWER_FOLDER, _dtype_name(dtype)))
    _write_json(folder / "tokenizer_config.json", _tokenizer_json("LlamaTokenizer"))
    _write_weights(folder, model, engine_family(config.family).names, dtype, shard_bytes)


def write_video_llava(
    folder: Path,
    model: LlavaModel,
    tokenizer_json: bytes,
    *,
    dtype: torch.dtype = torch.bfloat16,
    shard_bytes: int | None = None,
) -> None:
    """Writes `model` and its tokenizer.json into `folder` (made if needed) as a Video-LLaVA checkpoint.

    A LLaVA-1.5 or LLaVA-NeXT-Video model is written in its own layout by the same call; `shard_bytes` as above.
    """
    config = model.config
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_bytes(tokenizer_json)
    _write_json(folder / "config.json", llava_json(config, _dtype_name(dtype)))
    _write_json(folder / "preprocessor_config.json", preprocessor_json(edge(config.vision)))
    _write_json(folder / "tokenizer_config.json", _tokenizer_json("LlamaTokenizerFast"))
    _write_weights(folder, model, engine_family(config.family).names, dtype, shard_bytes)


def preprocessor_json(edge: int) -> dict[str, Any]:
    """CLIP's preprocessor_config.json for square inputs of `edge` pixels."""
    return {
        "crop_size": {"height": edge, "width": edge},
        "do_center_crop": True,
        "do_convert_rgb": True,
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": list(CLIP_MEAN),
        "image_processor_type": "CLIPImageProcessor",
        "image_std": list(CLIP_STD),
        "resample": 3,
        "rescale_factor": 1 / 255,
        "size": {"shortest_edge": edge},
    }


def _tokenizer_json(kind: str) -> dict[str, Any]:
    return {
        "add_bos_token": True,
        "add_eos_token": False,
        "bos_token": "<s>",
        "eos_token": "</s>",
        "legacy": True,
        "tokenizer_class": kind,
        "unk_token": "<unk>",
    }


def _write_weights(folder: Path, model: nn.Module, names: Naming, dtype: torch.dtype, shard_bytes: int | None) -> None:
    parameters = {names.published(name): parameter for name, parameter in model.named_parameters()}
    shards = _shards({name: parameter.numel() * dtype.itemsize for name, parameter in parameters.items()}, shard_bytes)
    weight_map: dict[str, str] = {}
    for number, shard in enumerate(shards, 1):
        file = WEIGHTS if shard_bytes is None else f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        tensors = {name: parameters[name].detach().to("cpu", dtype).contiguous().clone() for name in shard}
        save_file(tensors, folder / file, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(shard, file)
    if shard_bytes is not None:
        total = sum(parameter.numel() for parameter in parameters.values()) * dtype.itemsize
        _write_json(folder / f"{WEIGHTS}.index.json", {"metadata": {"total_size": total}, "weight_map": weight_map})


def _shards(sizes: dict[str, int], most_bytes: int | None) -> list[list[str]]:
    """Names in their order, cut where a shard would pass `most_bytes`."""
    shards: list[list[str]] = [[]]
    filled = 0
    for name, size in sizes.items():
        if most_bytes is not None and shards[-1] and filled + size > most_bytes:
            shards.append([])
            filled = 0
        shards[-1].append(name)
        filled += size
    return shards


def _write_json(path: Path, values: dict[str, Any]) -> None:
    path.write_text(json.dumps(values, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


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
    return {"model_type": "clip_vision_model", **{key: getattr(config, key) for key in VISION_KEYS}}


def _llama_json(config: LlamaConfig) -> dict[str, Any]:
    values = {key: getattr(config, key) for key in TEXT_KEYS}
    rope = config.rope_parameters or {}
    values["rope_theta"] = rope.get("rope_theta", 10_000.0)
    if rope.get("rope_type", "default") != "default":
        values["rope_scaling"] = {key: value for key, value in rope.items() if key != "rope_theta"}
    return values
