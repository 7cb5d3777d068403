"""Writes a model as a checkpoint folder in the layout its family was published in; reading is `weights`'s."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from engines.checkpoints.naming import Naming
from engines.families.family import engine_family
from engines.families.loaded_model import Network

WEIGHTS = "model.safetensors"


def write_checkpoint(
    folder: Path,
    model: Network,
    tokenizer: bytes,
    *,
    dtype: torch.dtype = torch.bfloat16,
    shard_bytes: int | None = None,
) -> None:
    """Writes `model` and its tokenizer (sentencepiece for EventGPT, else tokenizer.json) into `folder`, made if needed.

    `shard_bytes` is the most one weight file holds (a larger tensor gets one to itself); None writes a single file.
    """
    config = model.config
    family = engine_family(config.family)
    is_fast = family.writes_tokenizer_file
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ("tokenizer.json" if is_fast else "tokenizer.model")).write_bytes(tokenizer)
    for name, values in family.described_pictures(config).items():
        (folder / name).parent.mkdir(exist_ok=True)
        _write_json(folder / name, values)
    _write_json(folder / "config.json", family.config_json(config, str(dtype).removeprefix("torch.")))
    _write_json(
        folder / "tokenizer_config.json", _tokenizer_json("LlamaTokenizerFast" if is_fast else "LlamaTokenizer")
    )
    _write_weights(folder, model, family.names, dtype, shard_bytes)


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
