"""Writes a model as a checkpoint folder in the layout its family was published in.

Tensor names come from the family, config.json from `config_json`; reading is `shards` and `loading`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from bundled_pair.config_json import clip_json, eventgpt_json, llava_json
from engines.checkpoints.config import edge
from engines.checkpoints.naming import Naming
from engines.families.eventgpt_network import EventGptModel
from engines.families.family import engine_family
from engines.families.llava_network import LlavaModel
from engines.stages.pixel_values import CLIP_MEAN, CLIP_STD

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
